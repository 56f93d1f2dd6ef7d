import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { one } from './query.ts'

/**
 * How long the node has run, over all its processes.
 *
 * Used for ages, because nobody can set it. A wall clock that was set while the node was down looks like time that
 * passed. One instance per process and database.
 */
export interface RunTime {
  /** In milliseconds. */
  now(): number
  /**
   * Stores the run time for the next process, and takes over that of a process that has run longer. After a crash the
   * lost part makes things expire later, never earlier.
   */
  save(): Promise<void>
}

/**
 * How far the run times of processes that share a ledger may be apart: each saves its own every minute, and takes over that
 * of the one that has run longest. What has an age lives for so much longer, so that no process finds it too old too early.
 */
export const RUN_TIME_APART_MS = 5 * 60_000

/** What has an age tells how long the node had run by then, also after a crash. */
const LATEST = `
  SELECT max(ms) AS ms FROM (
    SELECT ms FROM run_time UNION ALL SELECT max(run_ms) FROM idempotency_keys
    UNION ALL SELECT max(run_ms) FROM sent_messages
  ) AS ages`
const NOTE = 'UPDATE run_time SET ms = CASE WHEN ms < ?1 THEN ?1 ELSE ms END RETURNING ms'
type TimeRow = { ms: number }

export async function createRunTime(database: LedgerDatabase, clock: Clock): Promise<RunTime> {
  let { ms } = (await database.query(one<TimeRow>(LATEST)))!
  const from = monotonicOf(clock)
  const now = () => Math.round(ms + Math.max(0, monotonicOf(clock) - from))
  return {
    now,
    async save() {
      const { ms: latest } = (await database.commit(one<TimeRow>(NOTE, now())))!
      ms += Math.max(0, latest - now())
    },
  }
}
