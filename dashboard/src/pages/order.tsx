import { type FormEvent, useEffect, useState } from 'react'
import { useWaiting } from '../api/approvals.ts'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Listing, OrderRecord } from '../api/types.ts'
import { money, span } from '../format.ts'
import { ApprovalItem } from '../parts/approval-item.tsx'
import { Ago, Badge, Facts, Id, PageHead, Section, Words } from '../parts/bits.tsx'
import { Exchange } from '../parts/exchange.tsx'
import { Field } from '../parts/field.tsx'
import { Frames } from '../parts/frames.tsx'
import { adviceFor, Problem, Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'
import { stagesOf } from '../stages.ts'

const isOpen = ({ status }: OrderRecord) => status === 'pending' || status === 'executing'

/** A purchase from the order to the receipt, as it goes. */
export function Order({ id }: { id: string }) {
  const path = `/orders/${encodeURIComponent(id)}`
  const order = useResource(path, (signal) => call<OrderRecord>(path, { signal }), {
    topics: ['order', 'payment'],
    everyMs: 1_000,
  })
  const agentPath = order.data && `/agents/${encodeURIComponent(order.data.agent_id)}`
  const agent = useResource(agentPath, (signal) => call<Listing>(`${agentPath}?include=stats`, { signal }), {
    everyMs: 60_000,
  })
  return (
    <Show of={order} what="This order is" title="Order">
      {(record) => (
        <>
          <PageHead title={agent.data?.name ?? 'Order'}>{isOpen(record) && <Cancel order={record} />}</PageHead>
          <Progress order={record} />
          <Waiting order={record} />
          {record.status === 'pending' && record.task === null && <GiveTask path={path} onDone={order.reload} />}
          {record.output !== undefined && (
            <Section title="Result">
              <Words text={record.output} label="Result of the agent" />
            </Section>
          )}
          {record.error !== undefined && <Failure order={record} />}
          {record.payment === undefined ? (
            <Frames known={{ order: record, listing: agent.data }} />
          ) : (
            <Exchange paymentId={record.payment.payment_id} order={record} />
          )}
          <Section title="Order">
            <Facts
              rows={[
                [
                  'Agent',
                  <Link key="agent" to={`/market/${record.agent_id}`}>
                    {agent.data?.name ?? record.agent_id}
                  </Link>,
                ],
                ['At most', `${money(record.price)} USDC`],
                ['Ordered', <Ago key="at" iso={record.created_at} />],
                record.workflow_id !== undefined && [
                  'Workflow',
                  <Link key="workflow" to={`/workflows/${record.workflow_id}`}>
                    {record.step_id ?? 'show it'}
                  </Link>,
                ],
                record.seller_id !== null && ['Seller', <Id key="seller" value={record.seller_id} what="peer id" />],
                record.correlation_id !== undefined && [
                  'Exchange',
                  <Id key="exchange" value={record.correlation_id} />,
                ],
                ['Order', <Id key="id" value={record.id} />],
              ]}
            />
          </Section>
          {record.task !== null && (
            <Section title="Task">
              <Words text={record.task} label="Task" />
            </Section>
          )}
        </>
      )}
    </Show>
  )
}

function Progress({ order }: { order: OrderRecord }) {
  const stages = stagesOf(order)
  return (
    <div role="status">
      <ol className="stages">
        {stages.map(({ name, state }) => (
          <li key={name} className={state} aria-current={state === 'now' ? 'step' : undefined}>
            {name}
          </li>
        ))}
      </ol>
      <p className="muted">
        <Badge state={order.status} /> {sentenceOf(order)}
        {order.status === 'executing' && <Elapsed since={order.created_at} />}
      </p>
    </div>
  )
}

function sentenceOf({ status, task, seller_id, cancel_requested }: OrderRecord): string {
  if (cancel_requested === true && status === 'executing') return 'Cancelled; the seller is asked what became of it.'
  if (status === 'pending' && task === null) return 'It waits for its task.'
  if (status === 'pending' && seller_id === null) return 'It waits until its agent is known on the market.'
  if (status === 'pending') return 'It is about to begin.'
  if (status === 'executing') return 'The agent works. You may leave this page: the order goes on.'
  return ''
}

/** How long it has been going on; not read aloud each second. */
function Elapsed({ since }: { since: string }) {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  return <span aria-hidden="true"> {span(Math.max(0, now - Date.parse(since)) / 1000)}</span>
}

function Cancel({ order }: { order: OrderRecord }) {
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  async function cancel() {
    setBusy(true)
    await call(`/orders/${order.id}`, { method: 'DELETE' }).catch(setError)
    setBusy(false)
  }
  return (
    <>
      {error !== undefined && <span className="bad-text">{error.message}</span>}
      <button type="button" onClick={cancel} disabled={busy || order.cancel_requested === true}>
        Cancel the order
      </button>
    </>
  )
}

/** An order may be placed without its task, as by another program. */
function GiveTask({ path, onDone }: { path: string; onDone(): void }) {
  const [error, setError] = useState<Error>()
  async function give(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const task = String(new FormData(event.currentTarget).get('task'))
    setError(undefined)
    await call(`${path}/execute`, { method: 'POST', body: { task } }).then(onDone, setError)
  }
  return (
    <form className="form" onSubmit={give}>
      <Field label="Task">
        <textarea name="task" rows={4} required />
      </Field>
      <button type="submit" className="primary">
        Execute the order
      </button>
      {error !== undefined && <Problem error={error} />}
    </form>
  )
}

function Waiting({ order }: { order: OrderRecord }) {
  const approvals = useWaiting(isOpen(order))
  const own = approvals.data?.items.filter(({ order_id }) => order_id === order.id) ?? []
  return own.map((approval) => (
    <ApprovalItem key={approval.id} approval={approval} onDone={approvals.reload} withTask={false} />
  ))
}

function Failure({ order: { error, agent_id } }: { order: OrderRecord }) {
  const advice = adviceFor(error?.code)
  return (
    <div className="state bad" role="alert">
      <p className="state-title">{error?.code}</p>
      <p className="pre">{error?.message}</p>
      {advice !== undefined && <p>{advice}</p>}
      <Link to={`/market/${agent_id}`} className="button">
        {error?.retryable === true ? 'Try again' : 'Back to the agent'}
      </Link>
    </div>
  )
}
