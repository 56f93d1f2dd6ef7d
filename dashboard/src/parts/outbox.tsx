import { useState } from 'react'
import { call } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import type { PaymentRecord } from '../api/types.ts'
import { decimalText, sumOf } from '../approval-sums.ts'
import { amount } from '../format.ts'
import { Link } from '../router.tsx'
import { AgentName } from './agent-name.tsx'
import { Ago, Section } from './bits.tsx'
import { Problem } from './states.tsx'
import { say } from './toasts.tsx'

const SHOWN_MAX = 50
const byId = ({ payment_id }: PaymentRecord) => payment_id

/** Payments that buyers owe this node, one card for each agent. Hidden if there are none. */
export function Outbox() {
  const owed = usePages<PaymentRecord>(
    '/payments',
    { book: 'owed', limit: SHOWN_MAX },
    { id: byId, topics: ['payment'] },
  )
  const groups = Map.groupBy(owed.items, ({ agent_id }) => agent_id)
  if (groups.size === 0) return null
  return (
    <Section title="Owed to this node">
      <ul className="cards" aria-label="Owed, by agent">
        {[...groups].map(([id, payments]) => (
          <li key={id} className="card">
            <Group payments={payments} onDone={owed.reload} />
          </li>
        ))}
      </ul>
    </Section>
  )
}

function Group({ payments, onDone }: { payments: readonly PaymentRecord[]; onDone(): void }) {
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const newest = payments[0]!
  const failing = payments.find((payment) => payment.error !== undefined)
  const [next] = payments.flatMap(({ next_attempt_at }) => next_attempt_at ?? []).sort()

  async function retry() {
    setBusy(true)
    setError(undefined)
    try {
      for (const { payment_id } of payments) await call(`/payments/${payment_id}/retry`, { method: 'POST' })
      say('The node tries to settle again.')
    } catch (reason) {
      setError(reason as Error)
    }
    onDone()
    setBusy(false)
  }

  return (
    <>
      <p className="state-title">
        {amount(decimalText(sumOf(payments)))} for <AgentName id={newest.agent_id} name={newest.agent_name} />
      </p>
      <p className="muted">
        {payments.length === 1 ? 'One payment' : `${payments.length} payments`} · newest <Ago iso={newest.created_at} />
        {next !== undefined && (
          <>
            {' '}
            · next attempt <Ago iso={next} />
          </>
        )}
      </p>
      {failing !== undefined && (
        <p>
          {failing.error} <Link to={`/payments/${failing.payment_id}`}>Details</Link>
        </p>
      )}
      <div className="actions">
        <button type="button" disabled={busy} onClick={retry}>
          {payments.length === 1 ? 'Try to settle now' : `Try to settle all ${payments.length} now`}
        </button>
      </div>
      {error !== undefined && <Problem error={error} />}
    </>
  )
}
