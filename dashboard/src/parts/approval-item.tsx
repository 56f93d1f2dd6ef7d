import { type ReactNode, useState } from 'react'
import { call } from '../api/client.ts'
import type { Approval } from '../api/types.ts'
import { amount, count } from '../format.ts'
import { Link } from '../router.tsx'
import { AgentLink } from './agent-link.tsx'
import { Ago, Facts, Id, Words } from './bits.tsx'
import { Problem } from './states.tsx'
import { say } from './toasts.tsx'

/** A purchase that waits for approval, with all facts for the decision. */
export function ApprovalItem({
  approval,
  onDone,
  select,
  withTask = true,
}: {
  approval: Approval
  onDone(): void
  /** Shown before the title, in lists with several choices. */
  select?: ReactNode
  /** True shows the task. The page of an order already shows it. */
  withTask?: boolean
}) {
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const { task, task_length, seller_id, order_id, workflow_id } = approval

  async function decide(verdict: 'approve' | 'deny') {
    setBusy(true)
    setError(undefined)
    try {
      await call(`/approvals/${encodeURIComponent(approval.id)}/${verdict}`, { method: 'POST' })
      say(verdict === 'approve' ? 'Approved. The purchase continues.' : 'Denied. Nothing is paid.')
      onDone()
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  return (
    <section className="card approval" aria-label={`Approval for ${approval.agent_name}`}>
      <div className="approval-head">
        {select}
        <h3>
          <AgentLink id={approval.agent_id} name={approval.agent_name} />
        </h3>
        <span className="approval-amount">{amount(approval.amount)}</span>
      </div>
      <p>{approval.reason}</p>
      <div className={withTask ? 'approval-body' : undefined}>
        {withTask && (
          <div>
            <Words text={task} label={`Task for ${approval.agent_name}`} />
            {task_length > task.length && (
              <p className="hint">
                The first {count(task.length)} of {count(task_length)} characters.{' '}
                <Link to={`/orders/${order_id}`}>Read the whole task</Link>
              </p>
            )}
          </div>
        )}
        <Facts
          rows={[
            ['Asked by', <Requester key="by" approval={approval} />],
            ['Budget after', afterText(approval)],
            ['Seller', <Id key="seller" value={seller_id} what="peer id" />],
            [
              'Asked',
              <span key="asked">
                <Ago iso={approval.created_at} />, expires <Ago iso={approval.expires_at} />
              </span>,
            ],
            [
              'Order',
              <span key="order" className="with-link">
                <Link to={`/orders/${order_id}`}>Show the order</Link>
                {workflow_id !== undefined && <Link to={`/workflows/${workflow_id}`}>Show the workflow</Link>}
              </span>,
            ],
          ]}
        />
      </div>
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

function Requester({ approval: { requester, workflow_id } }: { approval: Approval }) {
  const who = requester.kind === 'operator' ? 'you, the operator' : `token ${requester.token_name ?? 'without a name'}`
  return <>{workflow_id === undefined ? who : `${who}, for a workflow`}</>
}

function afterText({ budget_after }: Approval): string {
  if (budget_after === undefined) return 'not known'
  const { left_today, left_month } = budget_after
  if (left_today === null && left_month === null) return 'no limit is set'
  const parts = [
    left_today !== null && `${amount(left_today)} left today`,
    left_month !== null && `${amount(left_month)} left this month`,
  ]
  return parts.filter((part) => part !== false).join(', ')
}
