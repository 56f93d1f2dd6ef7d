import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Database } from './database.ts'

/**
 * How long this node has run, over all its processes.
 *
 * Used for ages, because nobody can set it. A wall clock that was set while the node was down looks like time that
 * passed. One instance per database.
 */
export interface RunTime {
  /** In milliseconds. */
  now(): number
  /** Stores the run time for the next process. After a crash the lost part makes things expire later, never earlier. */
  save(): Promise<void>
}

const NOTE = 'UPDATE run_time SET ms = max(ms, ?)'

export function createRunTime(database: Database, clock: Clock): RunTime {
  const { ms } = database.one<{ ms: number }>('SELECT ms FROM run_time')!
  const from = monotonicOf(clock)
  const now = () => Math.round(ms + Math.max(0, monotonicOf(clock) - from))
  return { now, save: () => database.write(() => noteRunTime(database, now())) }
}

/** For use inside a transaction that stores something with this age. */
export function noteRunTime(database: Database, now: number): void {
  database.run(NOTE, now)
}
