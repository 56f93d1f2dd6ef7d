import { isMissing } from '../api/client.ts'
import { type Happening, type Kind, useTimeline } from '../api/timeline.ts'
import { duration, money } from '../format.ts'
import { AgentName } from '../parts/agent-name.tsx'
import { Ago, Badge, PageHead } from '../parts/bits.tsx'
import { Empty, Loading, Problem } from '../parts/states.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link, useQuery } from '../router.tsx'

const kinds: readonly Kind[] = ['execution', 'order', 'workflow']
const names: Record<Kind, string> = { execution: 'Sold', order: 'Bought', workflow: 'Workflow' }
const keyOf = ({ key }: Happening) => key

/** Everything that was done by this node or for it, newest first. */
export function Activity() {
  const [query, change] = useQuery()
  const only = query.get('kind') as Kind | null
  const shown = only === null ? kinds : kinds.filter((kind) => kind === only)
  const timeline = useTimeline(shown)

  return (
    <>
      <PageHead title="Activity" />
      <fieldset className="choices">
        <legend className="hidden">What to show</legend>
        {([undefined, ...kinds] as const).map((kind) => (
          <button
            key={kind ?? 'all'}
            type="button"
            aria-pressed={(only ?? undefined) === kind}
            onClick={() => change({ kind: kind ?? '' })}
          >
            {kind === undefined ? 'Everything' : kind === 'workflow' ? 'Workflows' : names[kind]}
          </button>
        ))}
      </fieldset>
      {timeline.loading ? (
        <Loading />
      ) : timeline.items.length > 0 ? (
        <WindowedList label="Activity, newest first" pages={timeline} id={keyOf} rowHeight={[62, 84]}>
          {(happening) => <Row happening={happening} />}
        </WindowedList>
      ) : timeline.error !== undefined && !isMissing(timeline.error) ? (
        <Problem error={timeline.error} retry={timeline.reload} />
      ) : (
        <Empty title="Nothing has happened yet">
          <Link to="/market">Buy from an agent</Link>, or <Link to="/agents/new">sell one</Link>: each call appears
          here.
        </Empty>
      )}
    </>
  )
}

function Row({ happening }: { happening: Happening }) {
  const { to, name, text, state, amount, note } = lookOf(happening)
  return (
    <Link to={to} className="row activity-row">
      <span className="row-kind muted">{names[happening.kind]}</span>
      <span className="row-main">
        <span className="row-title">{name}</span>
        <span className="row-meta">{text}</span>
      </span>
      <span className="row-side">
        <span>
          <Badge state={state} />
          {note !== '' && <span className="muted"> {note}</span>}
        </span>
        <span className="row-meta">
          {amount !== '' && `${amount} · `}
          <Ago iso={happening.at} />
        </span>
      </span>
    </Link>
  )
}

/** A task can be megabytes: a row has room for a line. */
const line = (text: string | null | undefined) => (text ?? '').slice(0, 160).replace(/\s+/g, ' ')

function lookOf(happening: Happening) {
  switch (happening.kind) {
    case 'execution': {
      const { id, agent_id, agent_name, input, error, duration_ms } = happening.record
      return {
        to: `/executions/${id}`,
        name: <AgentName id={agent_id} name={agent_name} />,
        text: line(error ?? input),
        state: error === undefined ? 'completed' : 'failed',
        amount: '',
        note: duration(duration_ms),
      }
    }
    case 'order': {
      const { id, agent_id, agent_name, task, error, status, payment } = happening.record
      return {
        to: `/orders/${id}`,
        name: <AgentName id={agent_id} name={agent_name} />,
        text: line(error?.message ?? task),
        state: status,
        // What can never be charged is no price that was paid.
        amount: payment === undefined || payment.settlement === 'released' ? '' : `${money(payment.amount)} USDC`,
        note: '',
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
        amount: `${money(spent)} USDC`,
        note: '',
      }
    }
  }
}
