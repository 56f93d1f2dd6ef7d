import { useState } from 'react'
import { useWaiting } from '../api/approvals.ts'
import { call, page } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Approval, Budget } from '../api/types.ts'
import { decimalText, leftAfter, sumOf } from '../approval-sums.ts'
import { amount, moneyColumn } from '../format.ts'
import { ApprovalItem } from '../parts/approval-item.tsx'
import { Ago, Badge, PageHead, Section } from '../parts/bits.tsx'
import { Empty, Problem, Show } from '../parts/states.tsx'
import { say } from '../parts/toasts.tsx'
import { Link } from '../router.tsx'

/** Maximum approvals that one request may name. */
const DECIDED_AT_ONCE_MAX = 100
const DECIDED_SHOWN = 20

export function Approvals() {
  const waiting = useWaiting()
  const budget = useResource('/budget', (signal) => call<Budget>('/budget', { signal }), {
    topics: ['order', 'payment', 'approval'],
  })
  return (
    <>
      <PageHead title="Approvals">
        <Link to="/settings" className="button">
          Change the budget
        </Link>
      </PageHead>
      <Show of={waiting} what="Approvals are">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No purchase waits for approval.">{rule(budget.data)}</Empty>
          ) : (
            <Waiting items={items} budget={budget.data} onDone={waiting.reload} />
          )
        }
      </Show>
      <Decided />
    </>
  )
}

function rule(budget: Budget | undefined): string {
  if (budget === undefined) return ''
  if (budget.auto_approve_below === null)
    return 'This node asks for no approvals. It pays for every purchase within the budget.'
  return `A purchase of ${amount(budget.auto_approve_below, budget.symbol)} or more waits here for your decision.`
}

function Waiting({
  items,
  budget,
  onDone,
}: {
  items: readonly Approval[]
  budget: Budget | undefined
  onDone(): void
}) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  // Items that were decided elsewhere are gone from the list.
  const selected = items.filter(({ id }) => chosen.has(id)).slice(0, DECIDED_AT_ONCE_MAX)
  const isAll = selected.length === Math.min(items.length, DECIDED_AT_ONCE_MAX)

  function toggle(id: string) {
    const next = new Set(chosen)
    if (!next.delete(id)) next.add(id)
    setChosen(next)
  }

  async function decide(verdict: 'approved' | 'denied') {
    setBusy(true)
    setError(undefined)
    try {
      const body = { ids: selected.map(({ id }) => id), verdict }
      const answer = await call<Approval[]>('/approvals/decide', { method: 'POST', body })
      const done = answer.filter(({ status }) => status === verdict).length
      const rest = answer.length - done
      say(`${done} ${verdict}${rest > 0 ? `, ${rest} could no longer be decided` : ''}.`)
      setChosen(new Set())
      onDone()
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  return (
    <>
      {items.length > 1 && (
        <label className="select-all">
          <input
            type="checkbox"
            checked={isAll}
            onChange={() => setChosen(new Set(isAll ? [] : items.map(({ id }) => id)))}
          />
          Select all {items.length}, {amount(decimalText(sumOf(items)))} in total
        </label>
      )}
      <ul className="cards" aria-label="Purchases that wait">
        {items.map((approval) => (
          <li key={approval.id}>
            <ApprovalItem
              approval={approval}
              onDone={onDone}
              select={
                items.length > 1 && (
                  <input
                    type="checkbox"
                    aria-label={`Select ${approval.agent_name}, ${amount(approval.amount)}`}
                    checked={chosen.has(approval.id)}
                    onChange={() => toggle(approval.id)}
                  />
                )
              }
            />
          </li>
        ))}
      </ul>
      {selected.length > 0 && (
        <section className="decide-bar" aria-label="Decide the selected purchases">
          <p>
            <strong>
              {selected.length} selected, {amount(decimalText(sumOf(selected)))}
            </strong>
            <span className="muted"> {leftText(selected, budget)}</span>
          </p>
          <div className="actions">
            <button type="button" className="primary" disabled={busy} onClick={() => decide('approved')}>
              Approve {selected.length} and pay
            </button>
            <button type="button" disabled={busy} onClick={() => decide('denied')}>
              Deny {selected.length}
            </button>
          </div>
          {error !== undefined && <Problem error={error} />}
        </section>
      )}
    </>
  )
}

function leftText(selected: readonly Approval[], budget: Budget | undefined): string {
  const left = budget && leftAfter(selected, budget)
  if (left === undefined) return ''
  if (left < 0n)
    return 'The selected purchases cost more than is left of today’s budget. The last of them will be refused.'
  return `${amount(decimalText(left), budget?.symbol)} left today after these purchases`
}

function Decided() {
  const all = useResource('/approvals', (signal) => page<Approval>('/approvals', {}, signal), {
    topics: ['approval'],
    everyMs: 30_000,
  })
  const decided = (all.data?.items ?? []).filter(({ status }) => status !== 'pending').slice(0, DECIDED_SHOWN)
  if (decided.length === 0) return null
  const column = moneyColumn(decided.map(({ amount }) => amount))
  return (
    <Section title="Decided">
      <div className="table-wrap">
        <table>
          <thead>
            <tr>
              <th scope="col">Agent</th>
              <th scope="col">Decision</th>
              <th scope="col" className="extra">
                Asked
              </th>
              <th scope="col" className="number">
                USDC
              </th>
            </tr>
          </thead>
          <tbody>
            {decided.map((approval) => (
              <tr key={approval.id}>
                <th scope="row">
                  <Link to={`/orders/${approval.order_id}`}>{approval.agent_name}</Link>
                </th>
                <td>
                  <Badge state={approval.status} />
                </td>
                <td className="extra">
                  <Ago iso={approval.created_at} />
                </td>
                <td className="number">{column(approval.amount)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  )
}
