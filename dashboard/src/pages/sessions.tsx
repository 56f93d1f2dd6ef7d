import { call, page } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import { useResource } from '../api/resource.ts'
import type { OrderRecord, OwnAgent, SessionRecord } from '../api/types.ts'
import { AgentName } from '../parts/agent-name.tsx'
import { Ago, PageHead } from '../parts/bits.tsx'
import { Empty, Loading, Problem } from '../parts/states.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link, useQuery } from '../router.tsx'

const ORDERS_LOOKED_AT = 50
const byCaller = ({ caller_id }: SessionRecord) => caller_id

/** Sessions by agent, then by caller. */
export function Sessions() {
  const [query, change] = useQuery()
  const own = useResource('/agents/own', (signal) => call<OwnAgent[]>('/agents/own', { signal }), {
    topics: ['listing'],
  })
  const orders = useResource(
    'bought from',
    (signal) => page<OrderRecord>('/orders', { limit: ORDERS_LOOKED_AT }, signal),
    { topics: ['order'] },
  )
  const agents = [
    ...(own.data ?? []).map(({ id, name }) => ({ id, name: name as string | undefined })),
    ...[...new Set(orders.data?.items.map(({ agent_id }) => agent_id))].map((id) => ({ id, name: undefined })),
  ].filter(({ id }, index, all) => all.findIndex((other) => other.id === id) === index)
  const chosen = query.get('agent') ?? agents[0]?.id

  return (
    <>
      <PageHead title="Sessions" />
      {chosen === undefined ? (
        own.loading || orders.loading ? (
          <Loading />
        ) : (
          <Empty title="No sessions yet">
            A session holds the tasks of one caller and the answers of one agent.{' '}
            <Link to="/market">Call an agent</Link> to start a session.
          </Empty>
        )
      ) : (
        <div className="columns sessions">
          <nav aria-label="Agents">
            <ul className="choice-list">
              {agents.map(({ id, name }) => (
                <li key={id}>
                  <button type="button" aria-pressed={id === chosen} onClick={() => change({ agent: id })}>
                    <AgentName id={id} name={name} />
                  </button>
                </li>
              ))}
            </ul>
          </nav>
          <Callers key={chosen} agent={chosen} />
        </div>
      )}
    </>
  )
}

function Callers({ agent }: { agent: string }) {
  const pages = usePages<SessionRecord>(
    `/sessions/${encodeURIComponent(agent)}`,
    { limit: 50 },
    { id: byCaller, topics: ['order', 'payment'] },
  )
  if (pages.loading) return <Loading />
  if (pages.items.length === 0) {
    if (pages.error !== undefined) return <Problem error={pages.error} retry={pages.reload} />
    return <Empty title="Nobody has called this agent yet" />
  }
  return (
    <WindowedList label="Callers" pages={pages} id={byCaller} rowHeight={[62, 84]}>
      {({ caller_id, exchanges, updated_at }) => (
        <Link to={`/sessions/${agent}/${encodeURIComponent(caller_id)}`} className="row activity-row">
          <span className="row-main">
            <span className="row-title">{caller_id === 'local' ? 'This node' : caller_id}</span>
            <span className="row-meta">{(exchanges.at(-1)?.input ?? '').slice(0, 120)}</span>
          </span>
          <span className="row-side">
            <span className="row-meta">
              <Ago iso={updated_at} />
            </span>
          </span>
        </Link>
      )}
    </WindowedList>
  )
}
