import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Fleet, FleetProcess, Worker } from '../api/types.ts'
import { count, duration } from '../format.ts'
import { Ago, Badge, Facts, Id, PageHead, Section, type Tone } from '../parts/bits.tsx'
import { Empty, Show } from '../parts/states.tsx'

/** A clock that is off by less costs no payment. */
const CLOCK_MS_MAX = 5_000
const tones: Record<FleetProcess['state'], Tone> = {
  starting: 'busy',
  selling: 'good',
  ready: 'good',
  draining: 'warn',
  silent: 'bad',
}

/** The processes that share the ledger of this seller, the database between them, and the workers. */
export function Machines() {
  const fleet = useResource('/fleet', (signal) => call<Fleet>('/fleet', { signal }))
  return (
    <>
      <PageHead title="Machines" />
      <Show of={fleet} what="The machines are">
        {(known) => (
          <>
            {known.missing > 0 && <Missing count={known.missing} />}
            <Section title="Processes">
              <Processes fleet={known} />
            </Section>
            <Section title="Ledger">
              <Ledger fleet={known} />
            </Section>
            <Section title="Workers">{known.workers.length === 0 ? <NoWorkers /> : <Workers fleet={known} />}</Section>
            {known.ended.length > 0 && (
              <Section title="Ended in the last hour">
                <Ended fleet={known} />
              </Section>
            )}
          </>
        )}
      </Show>
    </>
  )
}

function Missing({ count: lost }: { count: number }) {
  return (
    <div className="state bad" role="alert">
      <p className="state-title">{lost === 1 ? 'A process was lost' : `${lost} processes were lost`}</p>
      <p>The others have taken over its work. Start it again on its machine. Its log there says why it ended.</p>
    </div>
  )
}

function Processes({ fleet: { processes, roles } }: { fleet: Fleet }) {
  const newest = processes.map(({ version = '' }) => version).reduce((a, b) => (compared(a, b) < 0 ? b : a), '')
  return (
    <div className="table-wrap">
      <table className="stacked">
        <thead>
          <tr>
            <th scope="col">Process</th>
            <th scope="col">State</th>
            <th scope="col" className="number">
              Runs
            </th>
            <th scope="col">Version</th>
            <th scope="col" className="number">
              Agents
            </th>
            <th scope="col">Heard of</th>
            <th scope="col">Address</th>
          </tr>
        </thead>
        <tbody>
          {processes.map((process) => (
            <tr key={process.id}>
              <th scope="row" className="wrap">
                {process.place}
                <span className="figure-note">{notesOf(process, roles)}</span>
                <Clock of={process} />
                <Differs of={process} />
              </th>
              <td data-column="State">
                <Badge state={process.state} tone={tones[process.state]} />
              </td>
              <td data-column="Runs" className="number">
                {count(process.running)}
              </td>
              <td data-column="Version">
                {process.version === newest ? (
                  newest
                ) : (
                  <Badge state="behind" tone="warn">
                    {process.version === undefined ? 'unknown' : `${process.version}, behind`}
                  </Badge>
                )}
              </td>
              <td data-column="Agents" className="number">
                {count(process.agents.length)}
              </td>
              <td data-column="Heard of">{process.seen_at === undefined ? '–' : <Ago iso={process.seen_at} />}</td>
              <td data-column="Address" className="wrap">
                {process.addresses.length === 0 ? (
                  '–'
                ) : (
                  <Id value={withoutPeer(process.addresses[0]!)} ends={0} what="address" />
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function notesOf({ id, answering }: FleetProcess, roles: Fleet['roles']): string {
  const own = roles.flatMap(({ name, process }) => (process === id ? [name] : []))
  return [...(answering ? ['answers this page'] : []), ...own].join(', ')
}

/** Only a clock that is wrong is worth a word. */
function Clock({ of: { clock_ahead_ms: ahead = 0 } }: { of: FleetProcess }) {
  if (Math.abs(ahead) <= CLOCK_MS_MAX) return null
  return (
    <Badge state="clock" tone="bad">
      clock {duration(Math.abs(ahead))} {ahead > 0 ? 'ahead' : 'behind'}
    </Badge>
  )
}

/** A buyer meets another price at each process. */
function Differs({ of: { differs } }: { of: FleetProcess }) {
  if (differs === undefined) return null
  const { agents, budget } = differs
  const names = agents.slice(0, 5).join(', ') + (agents.length > 5 ? ' and more' : '')
  const what = [...(agents.length === 0 ? [] : [`other settings for ${names}`]), ...(budget ? ['another budget'] : [])]
  return (
    <>
      <Badge state="differs" tone="warn">
        {what.join(' and ')}
      </Badge>
      <span className="figure-note">Give all the same agents.yaml and config.yaml, and restart them one by one.</span>
    </>
  )
}

function Ledger({ fleet: { database, processes } }: { fleet: Fleet }) {
  const here = processes.find(({ answering }) => answering)
  const waits = (latency: FleetProcess['read']) =>
    latency && `${duration(latency.p50_ms)}, 99 of 100 within ${duration(latency.p99_ms)}`
  const [reads, changes] = [waits(here?.read), waits(here?.change)]
  return (
    <Facts
      rows={[
        [
          'Database',
          database.engine === 'sqlite' ? 'stoa.db, in the data directory' : `PostgreSQL at ${database.server}`,
        ],
        database.away !== undefined && ['It is away', `${database.away}. This page shows what was known before.`],
        reads !== undefined && ['Reads take', reads],
        changes !== undefined && ['Changes take', changes],
        database.engine === 'postgres' && ['Behind the others', duration(here?.lag_ms)],
        here?.lease_seconds !== undefined && ['Lease', `${here.lease_seconds} s left`],
      ]}
    />
  )
}

function NoWorkers() {
  return (
    <Empty title="No worker has joined">
      A worker runs agents on another machine, without the wallet. <code>stoa worker invite</code> makes its token.
    </Empty>
  )
}

function Workers({ fleet: { workers } }: { fleet: Fleet }) {
  return (
    <div className="table-wrap">
      <table className="stacked">
        <thead>
          <tr>
            <th scope="col">Worker</th>
            <th scope="col">State</th>
            <th scope="col" className="number">
              Runs
            </th>
            <th scope="col">Agents</th>
            <th scope="col">Seen</th>
          </tr>
        </thead>
        <tbody>
          {workers.map((worker) => (
            <tr key={worker.id}>
              <th scope="row" className="wrap">
                {worker.name}
              </th>
              <td data-column="State">
                <Badge state={worker.state} tone={worker.state === 'connected' ? 'good' : 'warn'} />
              </td>
              <td data-column="Runs" className="number">
                {loadOf(worker)}
              </td>
              <td data-column="Agents" className="wrap">
                {worker.agents.join(', ') || '–'}
              </td>
              <td data-column="Seen">{worker.seen_at === undefined ? '–' : <Ago iso={worker.seen_at} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function loadOf({ state, running, runs_max: max }: Worker): string {
  return state === 'connected' ? `${running} of ${max}` : '–'
}

function Ended({ fleet: { ended } }: { fleet: Fleet }) {
  return (
    <ul className="lines">
      {ended.map(({ id, place, ended_at: at, how }) => (
        <li key={id}>
          {place} <Badge state={how} tone={how === 'lost' ? 'bad' : 'plain'} /> <Ago iso={at} />
        </li>
      ))}
    </ul>
  )
}

/** All processes have the peer id of the seller. */
function withoutPeer(address: string): string {
  return address.replace(/\/p2p\/[^/]+$/, '')
}

/** Compares versions by their numbers. */
function compared(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}
