import type { ReactNode } from 'react'
import type { Happening, Kind } from '../api/timeline.ts'
import { amount, duration, money } from '../format.ts'
import { books } from '../payment-words.ts'
import { Link } from '../router.tsx'
import { endOf } from '../run-end.ts'
import { AgentName } from './agent-name.tsx'
import { Ago, Badge } from './bits.tsx'
import { useIsNarrow } from './windowed-list.tsx'

export const kindNames: Record<Kind, string> = { execution: 'Sold', order: 'Bought', workflow: 'Workflow' }

type Look = { to: string; name: ReactNode; text: string; state: string; took: string; cost: string }

export function ActivityRow({ happening }: { happening: Happening }) {
  const { to, name, text, state, took, cost } = lookOf(happening)
  const isNarrow = useIsNarrow()
  if (isNarrow) {
    return (
      <Link to={to} className="row activity-row">
        <span className="row-kind muted">{kindNames[happening.kind]}</span>
        <span className="row-main">
          <span className="row-title">{name}</span>
          <span className="row-meta">{text}</span>
        </span>
        <span className="row-side">
          <span>
            <Badge state={state} />
            {took !== '' && <span className="muted"> {took}</span>}
          </span>
          <span className="row-meta">
            {cost !== '' && `${cost} · `}
            <Ago iso={happening.at} />
          </span>
        </span>
      </Link>
    )
  }
  return (
    <Link to={to} className="row activity-line">
      <span className="muted">{kindNames[happening.kind]}</span>
      <span className="row-title">{name}</span>
      <span className="task">{text}</span>
      <span>
        <Badge state={state} />
      </span>
      <span className="took muted">{took}</span>
      <span className="amount">{cost}</span>
      <span className="when muted">
        <Ago iso={happening.at} />
      </span>
    </Link>
  )
}

/** A row shows one line of a task, which can be megabytes long. */
const line = (text: string | null | undefined) => (text ?? '').slice(0, 160).replace(/\s+/g, ' ')

function lookOf(happening: Happening): Look {
  switch (happening.kind) {
    case 'execution': {
      const { id, agent_id, agent_name, input, error, canceled, duration_ms } = happening.record
      return {
        to: `/executions/${id}`,
        name: <AgentName id={agent_id} name={agent_name} />,
        text: line(error ?? input),
        state: endOf({ error, canceled }),
        took: duration(duration_ms),
        cost: '',
      }
    }
    case 'order': {
      const { id, agent_id, agent_name, task, error, status, payment } = happening.record
      return {
        to: `/orders/${id}`,
        name: <AgentName id={agent_id} name={agent_name} />,
        text: line(error?.message ?? task),
        state: status,
        took: '',
        cost: payment === undefined ? '' : costOf(payment),
      }
    }
    case 'workflow': {
      const { id, name, steps, status, spent } = happening.record
      const done = steps.filter((step) => step.status === 'completed').length
      return {
        to: `/workflows/${id}`,
        name: name ?? `${steps.length} steps`,
        text: `${done} of ${steps.length} steps done`,
        state: status,
        took: '',
        cost: Number(spent) === 0 ? '' : amount(spent),
      }
    }
  }
}

/** Shows a paid amount alone. An unpaid amount also names its book (D42). */
function costOf(payment: NonNullable<Extract<Happening, { kind: 'order' }>['record']['payment']>): string {
  if (payment.book === 'not_charged') return books.not_charged.word
  return payment.book === 'paid' ? amount(payment.amount) : `${money(payment.amount)} ${books[payment.book].word}`
}
