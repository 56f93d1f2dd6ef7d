import type { FleetProcess } from '../../schema/fleet.ts'
import { type Family, gauge, type MetricSources, one, type Value } from './metric-family.ts'

const states = [
  'starting',
  'selling',
  'ready',
  'draining',
  'silent',
] as const satisfies readonly FleetProcess['state'][]

const own = ({ fleet }: MetricSources) => fleet().processes.find(({ answering }) => answering)
const seconds = (ms: number | undefined) => (ms === undefined ? [] : one(ms / 1000))

/** Metrics of the processes and workers of one seller. Ids change at each start, so no label names a process. */
export const fleetFamilies: readonly Family[] = [
  gauge('stoa_processes', 'Processes of this seller that are alive, by state. A node alone has one.', ({ fleet }) => {
    const { processes } = fleet()
    return states.map((state) => ({
      labels: { state },
      value: processes.filter((process) => process.state === state).length,
    }))
  }),
  gauge(
    'stoa_processes_missing',
    'Processes that were lost in the last hour and have not started again on their machine.',
    ({ fleet }) => one(fleet().missing),
  ),
  gauge('stoa_process_versions', 'Versions of stoa that the processes of this seller run.', ({ fleet }) =>
    one(new Set(fleet().processes.flatMap(({ version = [] }) => version)).size),
  ),
  gauge(
    'stoa_lease_seconds',
    'When the lease of this process would end, as last seen. Only where processes share the ledger.',
    (from) => {
      const lease = own(from)?.lease_seconds
      return lease === undefined ? [] : one(lease)
    },
  ),
  gauge(
    'stoa_clock_ahead_seconds',
    'How far the clock of this process is ahead of the clock of the database.',
    (from) => seconds(own(from)?.clock_ahead_ms),
  ),
  gauge(
    'stoa_ledger_lag_seconds',
    'For how long it is overdue to read what other processes changed. It grows while the database is away.',
    ({ lagMs }) => seconds(lagMs()),
  ),
  gauge(
    'stoa_database_seconds',
    'How long callers waited for the database lately: reads and changes. Only with PostgreSQL.',
    ({ latency }) => quantiles(latency()),
  ),
  gauge(
    'stoa_database_refuses',
    '1 if the database could not write a change within the last minute, for example on a full disk.',
    ({ latency }) => one(latency().refused === undefined ? 0 : 1),
  ),
  gauge(
    'stoa_workers',
    'Workers that have joined this seller: connected to one of its processes, or away.',
    async (from) => {
      const workers = await from.workers()
      return ['connected', 'away'].map((state) => ({
        labels: { state },
        value: workers.filter((worker) => worker.state === state).length,
      }))
    },
  ),
  gauge('stoa_worker_runs', 'Tasks that connected workers run now, and the most that they take.', async (from) => {
    const workers = await from.workers()
    return [
      { labels: { kind: 'running' }, value: workers.reduce((sum, { running }) => sum + running, 0) },
      { labels: { kind: 'max' }, value: workers.reduce((sum, { runs_max: max }) => sum + max, 0) },
    ]
  }),
  gauge('stoa_agents_unable', 'Agents of this process that neither it nor another process can run.', unable),
]

function quantiles(latency: ReturnType<MetricSources['latency']>): Value[] {
  const { read, change } = latency
  return Object.entries({ read, change }).flatMap(([operation, waited]) => {
    if (waited === undefined) return []
    const { p50Ms, p99Ms } = waited
    return Object.entries({ '0.5': p50Ms, '0.99': p99Ms }).map(([quantile, ms]) => ({
      labels: { operation, quantile },
      value: ms / 1000,
    }))
  })
}

function unable({ agents, fleet }: MetricSources): Value[] {
  const sold = new Set(fleet().processes.flatMap(({ answering, agents }) => (answering ? [] : agents)))
  return one(agents().filter(({ id, paused, runnable }) => !paused && !runnable && !sold.has(id)).length)
}
