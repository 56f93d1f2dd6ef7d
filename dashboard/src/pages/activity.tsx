import { call, isMissing } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import { type Happening, type Kind, useTimeline } from '../api/timeline.ts'
import type { OwnAgent } from '../api/types.ts'
import { short } from '../format.ts'
import { ActivityRow, kindNames } from '../parts/activity-row.tsx'
import { PageHead } from '../parts/bits.tsx'
import { Empty, Loading, Problem } from '../parts/states.tsx'
import { type FilterProps, Typed } from '../parts/typed.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link, useQuery } from '../router.tsx'

const kinds: readonly Kind[] = ['execution', 'order', 'workflow']
const heads = [
  ['', 'of'],
  ['Agent', 'whose'],
  ['Task', 'task'],
  ['State', 'outcome'],
  ['Took', 'took'],
  ['Amount', 'amount'],
  ['When', 'when'],
] as const
const keyOf = ({ key }: Happening) => key

/** All activity of this node, newest first. */
export function Activity() {
  const [query, change] = useQuery()
  const get = (name: string) => query.get(name) ?? ''
  const agentId = get('agent')
  // A workflow has several agents.
  const possible = agentId === '' ? kinds : kinds.filter((kind) => kind !== 'workflow')
  const only = possible.find((kind) => kind === get('kind'))
  const timeline = useTimeline(only === undefined ? possible : [only], {
    q: get('q'),
    agentId,
    failed: get('failed') === 'true',
    day: get('day'),
  })
  const isFiltered = [...query].length > 0

  return (
    <>
      <PageHead title="Activity" />
      <Filters get={get} change={change} items={timeline.items} />
      <fieldset className="choices">
        <legend className="hidden">What to show</legend>
        {([undefined, ...possible] as const).map((kind) => (
          <button
            key={kind ?? 'all'}
            type="button"
            aria-pressed={only === kind}
            onClick={() => change({ kind: kind ?? '' })}
          >
            {kind === undefined ? 'Everything' : kind === 'workflow' ? 'Workflows' : kindNames[kind]}
          </button>
        ))}
        <button
          type="button"
          className="apart"
          aria-pressed={get('failed') === 'true'}
          onClick={() => change({ failed: get('failed') === 'true' ? '' : 'true' })}
        >
          Failed only
        </button>
      </fieldset>
      {timeline.loading ? (
        <Loading />
      ) : timeline.items.length > 0 || (timeline.more && timeline.failed === undefined) ? (
        <>
          {timeline.items.length > 0 ? (
            <div className="activity-line activity-heads" aria-hidden="true">
              {heads.map(([name, column]) => (
                <span key={column} className={column}>
                  {name}
                </span>
              ))}
            </div>
          ) : (
            <Loading what="Searching older entries" />
          )}
          <WindowedList label="Activity, newest first" pages={timeline} id={keyOf} rowHeight={[44, 84]}>
            {(happening) => <ActivityRow happening={happening} />}
          </WindowedList>
        </>
      ) : timeline.error !== undefined && !isMissing(timeline.error) ? (
        <Problem error={timeline.error} retry={timeline.reload} />
      ) : isFiltered ? (
        <Empty title="Nothing matches">
          <button type="button" onClick={() => change({ q: '', agent: '', failed: '', day: '', kind: '' })}>
            Show everything
          </button>
        </Empty>
      ) : (
        <Empty title="Nothing has happened yet">
          <Link to="/market">Buy from an agent</Link>, or <Link to="/agents/new">sell one</Link>. Each call then appears
          here.
        </Empty>
      )}
    </>
  )
}

function Filters({ get, change, items }: FilterProps & { items: readonly Happening[] }) {
  return (
    <search className="filters">
      <Typed
        label="Search"
        name="q"
        get={get}
        change={change}
        type="search"
        className="wide"
        placeholder="words, or an id"
      />
      <AgentChoice get={get} change={change} items={items} />
      <label>
        Day
        <input type="date" value={get('day')} onChange={(event) => change({ day: event.target.value })} />
      </label>
    </search>
  )
}

/** Offers own agents, and agents that the shown items name. */
function AgentChoice({ get, change, items }: FilterProps & { items: readonly Happening[] }) {
  const own = useResource('/agents/own', (signal) => call<OwnAgent[]>('/agents/own', { signal }), {
    topics: ['listing'],
  }).data
  const names = new Map(own?.map(({ id, name }) => [id, name]))
  for (const { kind, record } of items) {
    if (kind !== 'workflow' && !names.has(record.agent_id)) {
      names.set(record.agent_id, record.agent_name ?? short(record.agent_id))
    }
  }
  const chosen = get('agent')
  if (chosen !== '' && !names.has(chosen)) names.set(chosen, short(chosen))
  const sorted = [...names].sort(([, a], [, b]) => a.localeCompare(b))
  return (
    <label>
      Agent
      <select value={chosen} onChange={(event) => change({ agent: event.target.value, kind: '' })}>
        <option value="">any</option>
        {sorted.map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  )
}
