import type { Clock } from '../../src/lib/clock.ts'
import { monotonicOf } from '../../src/lib/clock.ts'
import type { RunTime } from '../../src/store/run-time.ts'

/** The run time of a node that starts for the first time, for parts that are built at once. */
export function freshRunTime(clock: Clock): RunTime {
  const from = monotonicOf(clock)
  return { now: () => Math.round(monotonicOf(clock) - from), save: async () => {} }
}
