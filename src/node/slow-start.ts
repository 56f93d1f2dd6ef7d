import type { Logger } from '../lib/logger.ts'
import { toldWait } from '../lib/told-wait.ts'
import type { Databases } from '../store/databases.ts'

/** A start asks the database some dozens of times, one after the other. */
const SLOW_MS = 50

type SlowStartDeps = Pick<Databases, 'server' | 'latency'> & { logger: Logger }

/** Says in the log that a start takes long because its database answers slowly. */
export function toldStart<T>(work: Promise<T>, { server, latency, logger }: SlowStartDeps): Promise<T> {
  if (server === undefined) return work
  let isTold = false
  const reason = () => {
    const { read } = latency()
    if (isTold || read === undefined || read.p50Ms < SLOW_MS) return undefined
    isTold = true
    return `the start waits for ${server}, which is slow: it answers in ${read.p50Ms.toFixed(0)} ms, and a start asks many times; run the node near the database`
  }
  return toldWait(work, { logger, reason })
}
