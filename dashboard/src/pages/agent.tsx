import { type FormEvent, useState } from 'react'
import { call, isMissing } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Budget, Listing, OrderRecord } from '../api/types.ts'
import { count, duration, money, networkName, percent, plain, price } from '../format.ts'
import { Ago, Facts, Id, PageHead, Section } from '../parts/bits.tsx'
import { Problem, Show } from '../parts/states.tsx'
import { Link, navigate } from '../router.tsx'

/** An agent on the market: what it is, who sells it, how it has done, and a form to buy. */
export function Agent({ id }: { id: string }) {
  const path = `/agents/${encodeURIComponent(id)}`
  const listing = useResource(path, (signal) => call<Listing>(`${path}?include=stats`, { signal }), {
    topics: ['listing'],
    everyMs: 15_000,
  })
  return (
    <Show of={listing} what="This agent is" title="Agent">
      {(agent) => (
        <>
          <PageHead title={agent.name}>
            {agent.local && (
              <Link to={`/agents/${agent.id}`} className="button">
                Edit
              </Link>
            )}
          </PageHead>
          <p className="lead">{agent.description}</p>
          {agent.look_alike_of !== undefined && (
            <div className="state warn">
              <p className="state-title">Its name may be taken for another’s</p>
              <p>
                “{agent.look_alike_of.name}” by another seller was here no later. Compare the sellers before you buy:{' '}
                <Link to={`/market/${agent.look_alike_of.id}`}>show the other</Link>.
              </p>
            </div>
          )}
          <div className="columns">
            <Buy agent={agent} />
            <Seller agent={agent} />
          </div>
        </>
      )}
    </Show>
  )
}

function Buy({ agent }: { agent: Listing }) {
  const [task, setTask] = useState('')
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const budget = useResource('/budget', (signal) => call<Budget>('/budget', { signal }), { topics: ['order'] })
  const isPaid = agent.price > 0 && !agent.local

  async function buy(event: FormEvent) {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      // The price on the screen is the most that will be paid, whatever the listing says by then.
      const body = { agent_id: agent.id, price: plain(agent.price), task }
      const order = await call<OrderRecord>('/orders', { method: 'POST', body })
      navigate(`/orders/${order.id}`)
    } catch (reason) {
      setError(reason as Error)
      setBusy(false)
    }
  }

  return (
    <Section title={isPaid ? 'Buy' : 'Run'}>
      <form onSubmit={buy} className="form">
        <label>
          Task
          <textarea
            rows={6}
            required
            value={task}
            onChange={(event) => setTask(event.target.value)}
            placeholder="What is the agent to do? Text to work on goes here too."
          />
        </label>
        <dl className="bill">
          <div>
            <dt>Price</dt>
            <dd>{agent.local ? 'your own agent, free' : price(agent.price)}</dd>
          </div>
          {isPaid && <Left budget={budget.data} error={budget.error} />}
        </dl>
        {isPaid && budget.data !== undefined && <Warning budget={budget.data} amount={agent.price} />}
        <button type="submit" className="primary" disabled={busy || task === ''}>
          {busy ? 'Ordering…' : isPaid ? `Buy for ${money(agent.price)} USDC` : 'Run'}
        </button>
        {isPaid && <p className="hint">You pay only if the agent answers: a failed run is not charged.</p>}
        {error !== undefined && <Problem error={error} />}
      </form>
    </Section>
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
        <dd>{budget.left_today === null ? 'no limit' : `${money(budget.left_today)} ${budget.symbol}`}</dd>
      </div>
      {budget.left_month !== null && (
        <div>
          <dt>Left this month</dt>
          <dd>
            {money(budget.left_month)} {budget.symbol}
          </dd>
        </div>
      )}
    </>
  )
}

function Warning({ budget, amount }: { budget: Budget; amount: number }) {
  const above = (limit: string | null) => limit !== null && amount > Number(limit)
  const text = above(budget.per_call)
    ? `This is above your limit of ${money(budget.per_call)} per call.`
    : above(budget.left_today)
      ? 'This is more than is left of today’s budget.'
      : above(budget.left_month)
        ? 'This is more than is left of this month’s budget.'
        : budget.auto_approve_below !== null && amount >= Number(budget.auto_approve_below)
          ? 'It will wait for your approval before anything is paid.'
          : undefined
  if (text === undefined) return null
  return (
    <p className="note">
      {text} <Link to="/wallet">Budget</Link>
    </p>
  )
}

function Seller({ agent }: { agent: Listing }) {
  const { stats, reputation } = agent
  return (
    <Section title="Seller" aside={<Link to={`/market?seller_id=${agent.seller_id}`}>All its agents</Link>}>
      <Facts
        rows={[
          ['Seller', <Id key="seller" value={agent.seller_id} what="peer id" />],
          [
            'Online',
            agent.local ? 'this node' : agent.online === undefined ? 'not known' : agent.online ? 'yes' : 'no',
          ],
          agent.latency_ms !== undefined && ['Latency', duration(agent.latency_ms)],
          stats !== undefined && ['Your calls', stats.calls === 0 ? 'none yet' : count(stats.calls)],
          stats !== undefined && stats.calls > 0 && ['Answered', percent(stats.success_rate)],
          stats !== undefined && stats.calls > 0 && ['Half within', duration(stats.p50_ms)],
          stats !== undefined && stats.calls > 0 && ['95 % within', duration(stats.p95_ms)],
          stats !== undefined && stats.calls > 0 && ['Paid to it', `${money(stats.settled_volume)} USDC`],
          agent.token_id !== undefined && ['On-chain identity', agent.token_id],
          reputation
            ? [
                'Reputation',
                reputation.count === 0
                  ? 'nobody has rated it'
                  : `${reputation.score ?? reputation.value} from ${reputation.count} ratings`,
              ]
            : undefined,
          agent.first_seen !== undefined && ['Known since', <Ago key="first" iso={agent.first_seen} />],
          agent.model !== undefined && ['Runs on', agent.model],
          agent.tags.length > 0 && ['Tags', agent.tags.join(', ')],
          ['Network', networkName(agent.network)],
          ['Paid to', <Id key="to" value={agent.pay_to} what="address" />],
          ['Agent', <Id key="id" value={agent.id} />],
        ]}
      />
    </Section>
  )
}
