import type { Stream } from '@libp2p/interface'
import { reasonOf } from '../lib/errors.ts'
import { type Backoff, backoffMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import { FramedStream } from '../protocols/framed-stream.ts'
import { workRefusals } from '../schema/work.ts'
import { WorkError } from './work-error.ts'
import { type SessionDeps, type SessionOptions, WorkSession } from './work-session.ts'

const RETRY: Backoff = { firstMs: 1_000, mostMs: 60_000 }
/** A seller or worker may break a rule once by a defect that one task shows. Only from so many in a row on does it not pass. */
const INVALID_MAX = 3
/** After so long a session, the next failure counts as the first. */
const SOUND_MS = 30_000

type WorkDeps = SessionDeps & {
  /** Opens a stream to the seller. @throws an error that says why the seller cannot be reached */
  dial(signal: AbortSignal): Promise<Stream>
  retry?: Backoff
}

/**
 * Works for a seller until the signal aborts. Connects again whenever the connection is lost.
 *
 * @throws WorkError if the seller does not let this worker in, for a reason that does not pass by itself
 */
export async function workFor(options: SessionOptions, deps: WorkDeps, signal: AbortSignal): Promise<void> {
  const { logger, retry = RETRY } = deps
  let failures = 0
  let invalid = 0
  while (!signal.aborted) {
    const from = performance.now()
    try {
      await workOnce(options, deps, signal)
      logger.warn({}, 'the seller ended the connection; connecting again')
    } catch (error) {
      if (signal.aborted) return
      const isSound = performance.now() - from >= SOUND_MS
      if (error instanceof WorkError && error.code === 'INVALID_MESSAGE') invalid = isSound ? 1 : invalid + 1
      if (error instanceof WorkError && workRefusals[error.code].final) throw error
      if (invalid >= INVALID_MAX) throw error
      logger.warn({ reason: reasonOf(error), count: failures + 1 }, 'not connected to the seller; trying again')
    }
    failures = performance.now() - from >= SOUND_MS ? 1 : failures + 1
    await pause(backoffMs(failures, retry), signal)
  }
}

async function workOnce(options: SessionOptions, deps: WorkDeps, signal: AbortSignal): Promise<void> {
  const stream = await deps.dial(signal)
  const session = new WorkSession(new FramedStream(stream), options, deps)
  try {
    await session.serve(signal)
  } finally {
    stream.abort(new Error('the worker has left'))
  }
}
