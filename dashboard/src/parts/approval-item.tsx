import { useState } from 'react'
import { call } from '../api/client.ts'
import type { Approval } from '../api/types.ts'
import { money } from '../format.ts'
import { Link } from '../router.tsx'
import { Ago, Id } from './bits.tsx'
import { Problem } from './states.tsx'
import { say } from './toasts.tsx'

/** A purchase that waits for a person. */
export function ApprovalItem({ approval, onDone }: { approval: Approval; onDone(): void }) {
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  async function decide(verdict: 'approve' | 'deny') {
    setBusy(true)
    setError(undefined)
    try {
      await call(`/approvals/${encodeURIComponent(approval.id)}/${verdict}`, { method: 'POST' })
      say(verdict === 'approve' ? 'Approved: the purchase goes on.' : 'Denied: nothing is paid.')
      onDone()
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  return (
    <section className="state warn" aria-label={`Approval for ${approval.agent_name}`}>
      <p className="state-title">
        {money(approval.amount)} USDC for <Link to={`/market/${approval.agent_id}`}>{approval.agent_name}</Link>
      </p>
      <p>{approval.reason}</p>
      <p className="muted">
        Seller <Id value={approval.seller_id} what="peer id" /> · asked <Ago iso={approval.created_at} /> · expires{' '}
        <Ago iso={approval.expires_at} />
      </p>
      <div className="actions">
        <button type="button" className="primary" disabled={busy} onClick={() => decide('approve')}>
          Approve and pay
        </button>
        <button type="button" disabled={busy} onClick={() => decide('deny')}>
          Deny
        </button>
      </div>
      {error !== undefined && <Problem error={error} />}
    </section>
  )
}
