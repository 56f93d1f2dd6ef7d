import * as z from 'zod'
import type { Clock } from '../../lib/clock.ts'
import { parseJson } from '../../lib/json.ts'
import type { LedgerDatabase } from '../ledger-database.ts'
import { all, nothing, one, type Query, run, steps, together } from '../query.ts'
import { END_DEAD, END_DEAD_AT_START, LEASE_MS, NOW } from './holder.ts'
import { migrations } from './migrations.ts'

/** The most addresses of a process, and characters of each. */
const ADDRESSES_MAX = 64
const ADDRESS_LENGTH_MAX = 500

const Latency = z.object({ p50Ms: z.number(), p99Ms: z.number(), count: z.int() })
const ConnectedWorker = z.object({
  id: z.string().max(64),
  agents: z.array(z.string().max(200)).max(1_000),
  failing: z.array(z.string().max(200)).max(1_000).optional(),
  running: z.int().min(0),
  runsMax: z.int().min(0),
  since: z.int(),
})

/** What a process says of itself. A later version may say more, and an earlier one says less. */
export const ProcessReport = z.object({
  version: z.string().max(100),
  /** Where buyers reach it: multiaddresses with the peer id of the seller. */
  addresses: z.array(z.string().max(ADDRESS_LENGTH_MAX)).max(ADDRESSES_MAX),
  /** The ids of its agents. */
  agents: z.array(z.string().max(200)).max(1_000),
  /** Tells its data directory, which one process at a time has, from others: the peer id of its market host. */
  home: z.string().max(200).optional(),
  /** Calls that it runs now. */
  running: z.int().min(0),
  /** It takes no new calls, because it stops. */
  isDraining: z.boolean(),
  /** How far its clock is ahead of the clock of the database, in ms. */
  aheadMs: z.int(),
  /** The version of the tables that it was made for. */
  schema: z.int().optional(),
  /** A hash of each agent as it is configured there, by its name. */
  definitions: z.record(z.string(), z.string().max(64)).optional(),
  /** A hash of the rules of the budget in its configuration. */
  budget: z.string().max(64).optional(),
  workers: z.array(ConnectedWorker).max(1_000).optional(),
  /** For how long the reading of what others have changed is overdue. */
  lagMs: z.int().min(0).optional(),
  /** How long it waited lately for what it read, and for what it changed. */
  latency: z.object({ read: Latency.optional(), change: Latency.optional() }).optional(),
})
export type ProcessReport = z.infer<typeof ProcessReport>

/** A process that is alive. `report` is missing until it has started. */
export type LedgerProcess = {
  id: string
  /** Where it runs, for people. */
  place: string
  /** How long it has run, and when its lease ends unless it is heard of, by the clock of the database. */
  upMs: number
  leaseMs: number
  /** How long nothing was heard of it. */
  silentMs: number
  report: ProcessReport | undefined
}

/** A process that has ended. `isLost`: its lease ended, because it died or was cut off. */
export type EndedProcess = {
  id: string
  place: string
  agoMs: number
  isLost: boolean
  silentMs: number
  /** What it said last. */
  report: ProcessReport | undefined
}
/** All processes of one moment. `roles`: what one of them does for all, by the name of the role. */
export type FleetSight = {
  alive: readonly LedgerProcess[]
  ended: readonly EndedProcess[]
  roles: readonly { name: string; process: string }[]
}
/** What a process says of itself. The ledger adds the rest. */
export type OwnReport = Omit<ProcessReport, 'aheadMs' | 'schema'>

/** The processes that share a ledger. */
export type Processes = {
  /** Ends those whose lease is over. @returns the ids of all that have ended lately */
  endDead(): Promise<string[]>
  /** Those that are alive, oldest first. */
  alive(): Promise<LedgerProcess[]>
  /** Those that are alive, those that have ended in the last hour, and who has which role. */
  sight(): Promise<FleetSight>
  /** @returns how far the clock of this process is ahead, in ms */
  report(report: OwnReport): Promise<number>
  /** How far the clock of this process is ahead of the clock of the database, in ms. Negative: behind. */
  aheadMs(): Promise<number>
}

type ProcessRow = { id: string; place: string; up_ms: number; lease_ms: number; report: string | null }
type EndedRow = Omit<ProcessRow, 'up_ms'> & { ago_ms: number; is_lost: number }

const LATELY_MS = 60 * 60 * 1000
/** Processes look every few seconds. */
const GAP_MS = LEASE_MS / 2

const ENDED = `SELECT id FROM processes WHERE ended_at > ${NOW} - ${LATELY_MS}`
const ALIVE = `
  SELECT id, place, ${NOW} - started_at AS up_ms, lease_until - ${NOW} AS lease_ms, report
  FROM processes WHERE ended_at IS NULL ORDER BY started_at, id`
const ENDED_LATELY = `
  SELECT id, place, ${NOW} - ended_at AS ago_ms, lease_until - ${NOW} AS lease_ms,
    CASE WHEN lease_until <= ended_at THEN 1 ELSE 0 END AS is_lost, report
  FROM processes WHERE ended_at > ${NOW} - ${LATELY_MS} ORDER BY ended_at DESC, id LIMIT 100`
const ROLES = `
  SELECT name, owner AS process FROM roles
  WHERE owner IN (SELECT id FROM processes WHERE ended_at IS NULL) ORDER BY name`
const REPORT = 'UPDATE processes SET report = ? WHERE id = ?'
const GET_TIME = `SELECT ${NOW} AS ms`

export function createProcesses(
  database: LedgerDatabase,
  clock: Clock,
  monotonic = () => performance.now(),
): Processes {
  const startedAt = monotonic()
  let lookedAt = startedAt
  let resumedAt: number | undefined
  /** After a time without the database the leases of all are over. The others get as long as a lease to come back. */
  const endOthers = () => {
    const now = monotonic()
    if (now - lookedAt > GAP_MS) resumedAt = now
    lookedAt = now
    if (resumedAt !== undefined && now - resumedAt < LEASE_MS) return nothing(0)
    const { process } = database
    return now - startedAt < LEASE_MS ? run(END_DEAD_AT_START, process, process) : run(END_DEAD, process)
  }
  return {
    async endDead() {
      const ended = all<{ id: string }>(ENDED)
      const [, rows] = await database.commit(together(endOthers(), ended))
      return rows.map(({ id }) => id)
    },
    async alive() {
      return (await database.query(all<ProcessRow>(ALIVE))).map(aliveOf)
    },
    async sight() {
      const [alive, ended, roles] = await database.query(
        together(all<ProcessRow>(ALIVE), all<EndedRow>(ENDED_LATELY), all<{ name: string; process: string }>(ROLES)),
      )
      return { alive: alive.map(aliveOf), ended: ended.map(endedOf), roles }
    },
    async report(report) {
      return database.commit(
        steps(function* () {
          const addresses = addressesIn(report.addresses)
          const said: ProcessReport = {
            ...report,
            addresses,
            aheadMs: yield* readAhead(clock),
            schema: migrations.length,
          }
          yield* run(REPORT, JSON.stringify(said), database.process)
          return said.aheadMs
        }),
      )
    },
    aheadMs: () => database.query(readAhead(clock)),
  }
}

/** The least that it can be: the question and its answer may have taken their time. */
function readAhead(clock: Clock): Query<number> {
  return steps(function* () {
    const asked = clock.now()
    const time = yield* one<{ ms: number }>(GET_TIME)
    const [earliest, latest] = [asked - time!.ms, clock.now() - time!.ms]
    return Math.round(earliest > 0 ? earliest : Math.min(latest, 0))
  })
}

function aliveOf({ id, place, up_ms: upMs, lease_ms: leaseMs, report }: ProcessRow): LedgerProcess {
  return { id, place, upMs, leaseMs, silentMs: silentMs(leaseMs), report: readReport(report) }
}

function endedOf({ id, place, ago_ms: agoMs, lease_ms: leaseMs, is_lost: isLost, report }: EndedRow): EndedProcess {
  return { id, place, agoMs, isLost: isLost === 1, silentMs: silentMs(leaseMs), report: readReport(report) }
}

/** What is heard of a process renews its lease. */
function silentMs(leaseMs: number): number {
  return Math.max(0, LEASE_MS - leaseMs)
}

/** What a report says that cannot be read. */
const UNREAD = { version: '', addresses: [], agents: [], running: 0, isDraining: false, aheadMs: 0 }

/**
 * Undefined: it has said nothing yet. A field that cannot be read, as another version may say it, does not take the
 * others with it: a process that looked as if it said nothing would be left out of the listings.
 */
function readReport(text: string | null): ProcessReport | undefined {
  const said: unknown = text === null ? undefined : parseJson(text)
  if (typeof said !== 'object' || said === null || Array.isArray(said)) return undefined
  const { data, error } = ProcessReport.safeParse(said)
  if (error === undefined) return data
  const bad = new Set(error.issues.map(({ path }) => path[0]))
  const good = Object.entries(said).filter(([name]) => !bad.has(name))
  const addresses = addressesIn('addresses' in said ? said.addresses : [])
  return ProcessReport.safeParse({ ...UNREAD, ...Object.fromEntries(good), addresses }).data
}

/** The best addresses, which come first, as many as a report takes. */
function addressesIn(addresses: unknown): string[] {
  const all: unknown[] = Array.isArray(addresses) ? addresses : []
  const fit = all.filter((one): one is string => typeof one === 'string' && one.length <= ADDRESS_LENGTH_MAX)
  return fit.slice(0, ADDRESSES_MAX)
}
