import * as z from 'zod'
import type { Clock } from '../../lib/clock.ts'
import { parseJson } from '../../lib/json.ts'
import type { LedgerDatabase } from '../ledger-database.ts'
import { all, one, run, steps, together } from '../query.ts'
import { NOW } from './holder.ts'

/** What a process says of itself. A later version may say more. */
export const ProcessReport = z.object({
  version: z.string().max(100),
  /** Where buyers reach it: multiaddresses with the peer id of the seller. */
  addresses: z.array(z.string().max(500)).max(64),
  /** The ids of its agents. */
  agents: z.array(z.string().max(200)).max(1_000),
  /** Calls that it runs now. */
  running: z.int().min(0),
  /** It takes no new calls, because it stops. */
  isDraining: z.boolean(),
  /** How far its clock is ahead of the clock of the database, in ms. */
  aheadMs: z.int(),
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
  report: ProcessReport | undefined
}

/** The processes that share a ledger. */
export type Processes = {
  /** Ends those whose lease is over. @returns the ids of all that have ended lately */
  endDead(): Promise<string[]>
  /** Those that are alive, oldest first. */
  alive(): Promise<LedgerProcess[]>
  report(report: Omit<ProcessReport, 'aheadMs'>): Promise<void>
}

type ProcessRow = { id: string; place: string; up_ms: number; lease_ms: number; report: string | null }

const LATELY_MS = 60 * 60 * 1000

const END_DEAD = `UPDATE processes SET ended_at = ${NOW} WHERE ended_at IS NULL AND lease_until <= ${NOW} AND id <> ?`
const ENDED = `SELECT id FROM processes WHERE ended_at > ${NOW} - ${LATELY_MS}`
const ALIVE = `
  SELECT id, place, ${NOW} - started_at AS up_ms, lease_until - ${NOW} AS lease_ms, report
  FROM processes WHERE ended_at IS NULL ORDER BY started_at, id`
const REPORT = 'UPDATE processes SET report = ? WHERE id = ?'
const GET_TIME = `SELECT ${NOW} AS ms`

export function createProcesses(database: LedgerDatabase, clock: Clock): Processes {
  return {
    async endDead() {
      const ended = all<{ id: string }>(ENDED)
      const [, rows] = await database.commit(together(run(END_DEAD, database.process), ended))
      return rows.map(({ id }) => id)
    },
    async alive() {
      const rows = await database.query(all<ProcessRow>(ALIVE))
      return rows.map(({ id, place, up_ms: upMs, lease_ms: leaseMs, report }) => {
        return { id, place, upMs, leaseMs, report: readReport(report) }
      })
    },
    async report(report) {
      await database.commit(
        steps(function* () {
          const time = yield* one<{ ms: number }>(GET_TIME)
          const said: ProcessReport = { ...report, aheadMs: Math.round(clock.now() - time!.ms) }
          yield* run(REPORT, JSON.stringify(said), database.process)
        }),
      )
    },
  }
}

/** Undefined: it has said nothing yet, or a later version says it in another way. */
function readReport(text: string | null): ProcessReport | undefined {
  return text === null ? undefined : ProcessReport.safeParse(parseJson(text)).data
}
