import { type FormEvent, useState } from 'react'
import { call, isMissing } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Budget, Listing, OrderRecord } from '../api/types.ts'
import { agentPrice, amount, networkName, plain, price } from '../format.ts'
import { Link, navigate } from '../router.tsx'
import { Problem } from './states.tsx'

/** A task for an agent, with its cost. The order page opens next. */
export function BuyForm({ agent }: { agent: Listing }) {
  const [task, setTask] = useState('')
  const [wish, setWish] = useState<Wish>('auto')
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const budget = useResource('/budget', (signal) => call<Budget>('/budget', { signal }), { topics: ['order'] })
  const isPaid = agent.price > 0 && !agent.local

  async function buy(event: FormEvent) {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      // The price on the screen is the limit, even if the listing changes.
      const body = { agent_id: agent.id, price: plain(agent.price), task, ...(wish !== 'auto' && { channel: wish }) }
      const order = await call<OrderRecord>('/orders', { method: 'POST', body })
      navigate(`/orders/${order.id}`)
    } catch (reason) {
      setError(reason as Error)
      setBusy(false)
    }
  }

  if (!agent.buyable) return <Foreign agent={agent} />
  return (
    <form onSubmit={buy} className="form">
      <label>
        Task
        <textarea
          rows={6}
          required
          value={task}
          onChange={(event) => setTask(event.target.value)}
          placeholder="What should the agent do? Add the text to work on."
        />
      </label>
      {isPaid && agent.channel !== undefined && <ChannelWish agent={agent} wish={wish} onChange={setWish} />}
      <dl className="bill">
        <div>
          <dt>{agent.pricing === undefined ? 'Price' : 'At most'}</dt>
          <dd>{agent.local ? 'your own agent, free' : price(agent.price)}</dd>
        </div>
        {isPaid && <Left budget={budget.data} error={budget.error} />}
      </dl>
      {isPaid && budget.data !== undefined && <Warning budget={budget.data} cost={agent.price} />}
      <button type="submit" className="primary" disabled={busy || task === ''}>
        {busy ? 'Ordering…' : isPaid ? `Buy for ${agentPrice(agent)}` : 'Run'}
      </button>
      {isPaid && (
        <p className="hint">
          Most sellers charge only for an answer. A seller that settles first may also charge for a failed run.
        </p>
      )}
      {error !== undefined && <Problem error={error} />}
    </form>
  )
}

type Wish = (typeof wishes)[number][0]
const wishes = [
  ['auto', 'as this node decides'],
  ['always', 'by a payment channel; opens one, if there is none'],
  ['never', 'by itself, in a transaction of its own'],
] as const

function ChannelWish({ agent, wish, onChange }: { agent: Listing; wish: Wish; onChange(wish: Wish): void }) {
  const isOnly = agent.schemes?.length === 1
  const offered = wishes.filter(([name]) => name !== 'never' || !isOnly)
  return (
    <label>
      How it is paid
      <select value={wish} onChange={({ target }) => onChange(offered.find(([name]) => name === target.value)![0])}>
        {offered.map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

/** D37: a node buys only on its own network. */
function Foreign({ agent }: { agent: Listing }) {
  return (
    <div className="state warn">
      <p className="state-title">Sold on {networkName(agent.network)}, but this node pays on another network</p>
      <p>
        A node buys only on its own network. To buy this agent, start a node with <code>--network {agent.network}</code>{' '}
        and send money to its wallet on that network.
      </p>
    </div>
  )
}

function Left({ budget, error }: { budget: Budget | undefined; error: Error | undefined }) {
  if (budget === undefined) {
    if (error === undefined || isMissing(error)) return null
    return (
      <div>
        <dt>Budget</dt>
        <dd>not known: {error.message}</dd>
      </div>
    )
  }
  return (
    <>
      <div>
        <dt>Left today</dt>
        <dd>{budget.left_today === null ? 'no limit' : amount(budget.left_today, budget.symbol)}</dd>
      </div>
      {budget.left_month !== null && (
        <div>
          <dt>Left this month</dt>
          <dd>{amount(budget.left_month, budget.symbol)}</dd>
        </div>
      )}
    </>
  )
}

function Warning({ budget, cost }: { budget: Budget; cost: number }) {
  const above = (limit: string | null) => limit !== null && cost > Number(limit)
  const text = above(budget.per_call)
    ? `This is above your limit of ${amount(budget.per_call, budget.symbol)} per call.`
    : above(budget.left_today)
      ? 'This is more than is left of today’s budget.'
      : above(budget.left_month)
        ? 'This is more than is left of this month’s budget.'
        : budget.auto_approve_below !== null && cost >= Number(budget.auto_approve_below)
          ? 'The purchase will wait for your approval before anything is paid.'
          : undefined
  if (text === undefined) return null
  return (
    <p className="note">
      {text} <Link to="/settings">Budget</Link>
    </p>
  )
}
