import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Database } from './database.ts'

/**
 * How long this node has run, in all its processes together.
 *
 * What must not be forgotten early ages by it: nobody can set it, and a clock that was set while the node was down cannot be told
 * from time that passed. One for each database.
 */
export interface RunTime {
  /** Milliseconds. */
  now(): number
  /** Keeps it over the end of the process. What a crash loses of it makes things age later, never earlier. */
  save(): Promise<void>
}

const NOTE = 'UPDATE run_time SET ms = max(ms, ?)'

export function createRunTime(database: Database, clock: Clock): RunTime {
  const { ms } = database.prepare('SELECT ms FROM run_time').get() as { ms: number }
  const from = monotonicOf(clock)
  const now = () => Math.round(ms + Math.max(0, monotonicOf(clock) - from))
  return { now, save: () => database.write(() => noteRunTime(database, now())) }
}

/** For use inside a transaction that stores something of this age. */
export function noteRunTime(database: Database, now: number): void {
  database.prepare(NOTE).run(now)
}
