import { useState } from 'react'
import { call, download, isMissing } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import { useResource } from '../api/resource.ts'
import type { PaymentRecord, Stats } from '../api/types.ts'
import { count, money, short } from '../format.ts'
import { AgentName } from '../parts/agent-name.tsx'
import { Ago, Badge, Figure, PageHead, Section } from '../parts/bits.tsx'
import { DaysChart } from '../parts/days-chart.tsx'
import { Retry } from '../parts/exchange.tsx'
import { Empty, Loading, Problem, Show, Unavailable } from '../parts/states.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link, useQuery } from '../router.tsx'

const PAGE_ITEMS = 50
const byId = ({ payment_id, direction }: PaymentRecord) => direction + payment_id
const states = ['settled', 'claimed', 'pending', 'failed', 'reserved', 'released', 'voided']

export function Payments() {
  const stats = useResource('/stats', (signal) => call<Stats>('/stats?days=30', { signal }), {
    topics: ['payment', 'order'],
  })
  return (
    <>
      <PageHead title="Payments">
        <Export />
      </PageHead>
      <Show of={stats} what="Totals are">
        {({ earned, paid: spent, owed: pending, lost: unpaid, days }) => (
          <>
            <dl className="figures">
              <Figure
                label="Earned in 30 days"
                value={money(earned.month)}
                unit="USDC"
                note={`${money(earned.total)} in all`}
              />
              <Figure
                label="Spent in 30 days"
                value={money(spent.month)}
                unit="USDC"
                note={`${money(spent.total)} in all`}
              />
              <Figure
                label="To be settled"
                value={money(pending.amount)}
                unit="USDC"
                note={`${count(pending.payments)} in the outbox`}
              />
              <Figure
                label="Not paid"
                value={money(unpaid.amount)}
                unit="USDC"
                note={unpaid.payments === 0 ? 'nothing' : `${count(unpaid.payments)} given up`}
              />
            </dl>
            <DaysChart days={days} />
            <p className="hint">Days begin at midnight UTC.</p>
          </>
        )}
      </Show>
      <Outbox />
      <List />
    </>
  )
}

function Export() {
  const [error, setError] = useState<Error>()
  const save = (format: 'csv' | 'json') => {
    setError(undefined)
    download(`/receipts/export?format=${format}`, `stoa-receipts.${format}`).catch(setError)
  }
  return (
    <>
      {error !== undefined && (
        <span className="bad-text" role="alert">
          {isMissing(error) ? 'This node keeps no receipts.' : error.message}
        </span>
      )}
      <button type="button" onClick={() => save('csv')}>
        Receipts as CSV
      </button>
      <button type="button" onClick={() => save('json')}>
        as JSON
      </button>
    </>
  )
}

/** What this node is owed and does not have: shown only while there is any. */
function Outbox() {
  const failed = usePages<PaymentRecord>(
    '/payments',
    { direction: 'in', state: 'failed', limit: PAGE_ITEMS },
    { id: byId, topics: ['payment'] },
  )
  const pending = usePages<PaymentRecord>(
    '/payments',
    { direction: 'in', state: 'pending', limit: PAGE_ITEMS },
    { id: byId, topics: ['payment'] },
  )
  const owed = [...failed.items, ...pending.items]
  if (owed.length === 0) return null
  const reload = () => {
    failed.reload()
    pending.reload()
  }
  return (
    <Section title="Outbox">
      <ul className="cards">
        {owed.map((payment) => (
          <li key={payment.payment_id} className={payment.state === 'failed' ? 'state bad' : 'state'}>
            <p className="state-title">
              {money(payment.amount)} USDC for <AgentName id={payment.agent_id} name={payment.agent_name} />
            </p>
            <p className="muted">
              <Badge state={payment.state} /> · {payment.attempts ?? 0} attempts · <Ago iso={payment.created_at} />
              {payment.next_attempt_at !== undefined && (
                <>
                  {' '}
                  · next <Ago iso={payment.next_attempt_at} />
                </>
              )}
            </p>
            {payment.error !== undefined && <p>{payment.error}</p>}
            <div className="actions">
              <Retry payment={payment} onDone={reload} />
              <Link to={`/payments/${payment.payment_id}`}>Details</Link>
            </div>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function List() {
  const [query, change] = useQuery()
  const direction = query.get('direction') ?? ''
  const state = query.get('state') ?? ''
  const pages = usePages<PaymentRecord>(
    '/payments',
    { direction, state, limit: PAGE_ITEMS },
    { id: byId, topics: ['payment', 'order'] },
  )
  return (
    <Section title="All payments">
      <div className="filters">
        <label>
          Direction
          <select value={direction} onChange={(event) => change({ direction: event.target.value })}>
            <option value="">in and out</option>
            <option value="in">in</option>
            <option value="out">out</option>
          </select>
        </label>
        <label>
          State
          <select value={state} onChange={(event) => change({ state: event.target.value })}>
            <option value="">any</option>
            {states.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
      {pages.loading ? (
        <Loading />
      ) : pages.items.length > 0 ? (
        <WindowedList label="Payments, newest first" pages={pages} id={byId} rowHeight={[62, 84]}>
          {(payment) => <Row payment={payment} />}
        </WindowedList>
      ) : isMissing(pages.error) ? (
        <Unavailable what="Payments are" />
      ) : pages.error !== undefined ? (
        <Problem error={pages.error} retry={pages.reload} />
      ) : (
        <Empty title="No payments">
          {direction + state === '' ? 'Each paid call, sold or bought, appears here.' : 'None is in this state.'}
        </Empty>
      )}
    </Section>
  )
}

function Row({ payment }: { payment: PaymentRecord }) {
  const isIn = payment.direction === 'in'
  const isCharged =
    payment.state === 'settled' ||
    payment.state === 'claimed' ||
    payment.state === 'pending' ||
    payment.state === 'reserved'
  return (
    <Link to={`/payments/${payment.payment_id}`} className="row activity-row">
      <span className="row-kind muted">{isIn ? 'In' : 'Out'}</span>
      <span className="row-main">
        <span className="row-title">
          <AgentName id={payment.agent_id} name={payment.agent_name} />
        </span>
        <span className="row-meta">
          {isIn ? 'from' : 'to'} {short(payment.peer_id, 5)}
          {payment.tx_hash !== '' && ` · ${short(payment.tx_hash, 6)}`}
        </span>
      </span>
      <span className="row-side">
        <span className={isCharged ? 'price' : 'muted'}>
          {isCharged && (isIn ? '+' : '−')}
          {money(payment.amount)} USDC
        </span>
        <span className="row-meta">
          <Badge state={payment.state} /> · <Ago iso={payment.created_at} />
        </span>
      </span>
    </Link>
  )
}
