import { type FormEvent, useEffect, useState } from 'react'
import { useWaiting } from '../api/approvals.ts'
import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Listing, OrderRecord } from '../api/types.ts'
import { price, sentence, span } from '../format.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { ApprovalItem } from '../parts/approval-item.tsx'
import { Ago, Badge, Facts, Id, PageHead, Section, Words } from '../parts/bits.tsx'
import { PaymentPanel, Receipt, useExchange } from '../parts/exchange.tsx'
import { Field } from '../parts/field.tsx'
import { Frames } from '../parts/frames.tsx'
import { Result } from '../parts/result.tsx'
import { adviceFor, Problem, Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'
import { stagesOf } from '../stages.ts'

const isOpen = ({ status }: OrderRecord) => status === 'pending' || status === 'executing'

/** A purchase from order to receipt, with live updates: first task and result, then the cost. */
export function Order({ id }: { id: string }) {
  const path = `/orders/${encodeURIComponent(id)}`
  const order = useResource(path, (signal) => call<OrderRecord>(path, { signal }), {
    topics: ['order', 'payment'],
    everyMs: 1_000,
  })
  // What was bought from a URL is no agent of the market.
  const agentPath =
    order.data === undefined || order.data.web !== undefined
      ? undefined
      : `/agents/${encodeURIComponent(order.data.agent_id)}`
  const agent = useResource(agentPath, (signal) => call<Listing>(`${agentPath}?include=stats`, { signal }), {
    everyMs: 60_000,
  })
  return (
    <Show of={order} what="This order is" title="Order">
      {(record) => (
        <>
          <PageHead title={record.agent_name ?? agent.data?.name ?? 'Order'}>
            {isOpen(record) && <Cancel order={record} />}
            {record.status === 'completed' && <Again order={record} listing={agent.data} />}
          </PageHead>
          <Progress order={record} />
          <Waiting order={record} />
          <Parts order={record} listing={agent.data} path={path} reload={order.reload} />
        </>
      )}
    </Show>
  )
}

function Parts({
  order,
  listing,
  path,
  reload,
}: {
  order: OrderRecord
  listing: Listing | undefined
  path: string
  reload(): void
}) {
  const { payment, receipt, known } = useExchange(order.payment?.payment_id, { order, listing })
  return (
    <>
      <div className="split">
        <div>
          {order.task !== null && order.task !== '' && (
            <Section title="Task">
              <Words text={order.task} label="Task" />
            </Section>
          )}
          {order.status === 'pending' && order.task === null && <GiveTask path={path} onDone={reload} />}
          {order.output !== undefined && (
            <Result
              title="Result"
              text={order.output}
              base64={order.output_base64}
              label="Result of the agent"
              file={`result-${order.id}`}
            />
          )}
          {order.notes !== undefined && <Notes notes={order.notes} />}
          {order.error !== undefined && <Failure order={order} />}
        </div>
        <aside aria-label="Payment and order">
          {order.payment !== undefined && <PaymentPanel payment={payment} />}
          <About order={order} listing={listing} />
          {receipt !== undefined && <Receipt record={receipt} />}
        </aside>
      </div>
      {order.web === undefined && (order.payment === undefined || payment.data !== undefined) && (
        <Frames known={known} />
      )}
    </>
  )
}

function About({ order, listing }: { order: OrderRecord; listing: Listing | undefined }) {
  const seller = order.seller_name ?? listing?.seller_name
  return (
    <Section title="Order">
      <Facts
        rows={[
          ['Agent', <AgentLink key="agent" id={order.agent_id} name={order.agent_name ?? listing?.name} />],
          order.seller_id !== null && [
            'Seller',
            <span key="seller" className="with-link">
              {seller !== undefined && <span>{seller}</span>}
              <Id value={order.seller_id} what={order.web === undefined ? 'peer id' : 'seller'} />
            </span>,
          ],
          order.web !== undefined && ['URL', <Id key="url" value={order.web.url} what="URL" />],
          ['At most', price(order.price)],
          ['Ordered', <Ago key="at" iso={order.created_at} />],
          order.workflow_id !== undefined && [
            'Workflow',
            <Link key="workflow" to={`/workflows/${order.workflow_id}`}>
              {order.step_id ?? 'show it'}
            </Link>,
          ],
          order.bought_for !== undefined && [
            'Bought for',
            <Link key="bought-for" to={`/agents/${order.bought_for.agent_id}`}>
              {order.bought_for.agent_name}
            </Link>,
          ],
          order.correlation_id !== undefined && ['Exchange', <Id key="exchange" value={order.correlation_id} />],
          ['Order', <Id key="id" value={order.id} />],
        ]}
      />
    </Section>
  )
}

/** Missing or unusual parts of the seller's answer. The buyer accepted the result despite these. */
function Notes({ notes }: { notes: readonly string[] }) {
  return (
    <ul className="notes muted" aria-label="Notes on the result">
      {notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  )
}

function Again({ order: { agent_id }, listing }: { order: OrderRecord; listing: Listing | undefined }) {
  if (listing === undefined || !(listing.buyable || listing.local)) return null
  return (
    <Link to={`/market/${agent_id}`} className="button">
      {listing.price > 0 && !listing.local ? 'Buy again' : 'Run again'}
    </Link>
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
  if (cancel_requested === true && status === 'executing')
    return 'This order is being canceled. The node asks the seller about the payment.'
  if (status === 'pending' && task === null) return 'The order waits for a task.'
  if (status === 'pending' && seller_id === null) return 'The order waits until its agent is on the market.'
  if (status === 'pending') return 'The order starts soon.'
  if (status === 'executing') return 'The agent is working. You may leave this page. The order continues.'
  return ''
}

/** The elapsed time. Screen readers do not announce each second. */
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

/** Another program may create an order without a task. This form adds the task. */
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

/** `EXECUTION_FAILED` → `Execution failed`. */
function titleOf(code = 'FAILED'): string {
  return sentence(code.toLowerCase().replaceAll('_', ' '))
}

function Failure({ order: { status, error, agent_id, web } }: { order: OrderRecord }) {
  const advice = adviceFor(error?.code)
  return (
    <div className="state bad" role="alert">
      <p className="state-title">{status === 'cancelled' ? 'Canceled' : titleOf(error?.code)}</p>
      <p className="pre">{error?.message}</p>
      {advice !== undefined && <p>{advice}</p>}
      {web === undefined && (
        <Link to={`/market/${agent_id}`} className="button">
          {error?.retryable === true ? 'Try again' : 'Back to the agent'}
        </Link>
      )}
    </div>
  )
}
