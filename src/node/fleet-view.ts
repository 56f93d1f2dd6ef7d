import { type Clock, isoTime } from '../lib/clock.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { Fleet, FleetProcess } from '../schema/fleet.ts'
import type { WorkerRecord } from '../schema/worker.ts'
import type { Latency } from '../store/latency.ts'
import type { FleetSight, LedgerProcess, ProcessReport } from '../store/postgres/processes.ts'
import { differencesOf } from './differences.ts'
import { missingOf } from './missing.ts'

/** A process whose last report is at most this old is well: it reports every 3 s. */
const SILENT_MS_MAX = 10_000

type ViewDeps = {
  clock: Clock
  /** The id of this process. */
  process: string
  /** The database of the ledger, if it is in PostgreSQL. */
  server: string | undefined
  /** Why the database does not answer. */
  away?: string | undefined
}

/** The fleet as the API shows it. */
export function fleetView(
  sight: FleetSight,
  workers: readonly WorkerRecord[],
  { clock, process, server, away }: ViewDeps,
): Fleet {
  const { alive, ended, roles } = sight
  const now = clock.now()
  const here = alive.find(({ id }) => id === process)?.report
  return {
    processes: alive.map((one) => ({ ...processView(one, one.id === process, now), ...differs(one.report, here) })),
    ended: ended.map(({ id, place, agoMs, isLost }) => ({
      ...{ id, place, ended_at: isoTime(now - agoMs), how: isLost ? 'lost' : 'stopped' },
    })),
    missing: missingOf(sight).length,
    roles: [...roles],
    database:
      server === undefined ? { engine: 'sqlite' } : { engine: 'postgres', server, ...(away !== undefined && { away }) },
    workers: workers.filter(({ state }) => state === 'connected' || state === 'away'),
  }
}

/** What the status says of the other processes and of workers. Nothing for a node that has neither. */
export function fleetStatus(sight: FleetSight, isShared: boolean): Pick<NodeStatus, 'processes' | 'workers'> {
  const workers = new Map(sight.alive.flatMap(({ report }) => report?.workers ?? []).map((one) => [one.id, one]))
  const sum = (of: 'running' | 'runsMax') => workers.values().reduce((total, one) => total + one[of], 0)
  return {
    ...(isShared && { processes: { alive: sight.alive.length, missing: missingOf(sight).length } }),
    ...(workers.size > 0 && {
      workers: { connected: workers.size, running: sum('running'), runs_max: sum('runsMax') },
    }),
  }
}

function differs(report: ProcessReport | undefined, here: ProcessReport | undefined): Pick<FleetProcess, 'differs'> {
  const found = differencesOf([report, here])
  return found === undefined ? {} : { differs: { agents: found.agents, budget: found.budget } }
}

function processView(one: LedgerProcess, isThis: boolean, now: number): FleetProcess {
  const { id, place, upMs, leaseMs, silentMs, report } = one
  const { version, schema, addresses = [], agents = [], running = 0, aheadMs, lagMs, latency } = report ?? {}
  return {
    ...{ id, place, answering: isThis, state: stateOf(one), started_at: isoTime(now - upMs) },
    ...(version !== undefined && { version }),
    ...(schema !== undefined && { schema }),
    ...(Number.isFinite(leaseMs) && {
      ...{ seen_at: isoTime(now - silentMs), lease_seconds: Math.max(0, Math.round(leaseMs / 1000)) },
    }),
    ...{ addresses, agents, running },
    ...(aheadMs !== undefined && { clock_ahead_ms: aheadMs }),
    ...(lagMs !== undefined && { lag_ms: lagMs }),
    ...latencies(latency),
  }
}

function latencies({ read, change }: { read?: Latency | undefined; change?: Latency | undefined } = {}) {
  const view = ({ p50Ms, p99Ms, count }: Latency) => ({ p50_ms: rounded(p50Ms), p99_ms: rounded(p99Ms), count })
  return { ...(read && { read: view(read) }), ...(change && { change: view(change) }) }
}

const rounded = (ms: number) => Math.round(ms * 100) / 100

function stateOf({ silentMs, report }: LedgerProcess): FleetProcess['state'] {
  if (silentMs > SILENT_MS_MAX) return 'silent'
  if (report === undefined) return 'starting'
  if (report.isDraining) return 'draining'
  return report.agents.length === 0 ? 'ready' : 'selling'
}
