import { CodedError } from '../lib/errors.ts'
import type { WorkRefusal } from '../schema/work.ts'

/** Why a worker is not let in, or is cut off. The worker is told. */
export class WorkError extends CodedError<WorkRefusal> {
  override name = 'WorkError'
}

export function revoked(): WorkError {
  const fix = 'who runs the seller can invite it again with `stoa worker invite`'
  return new WorkError('REVOKED', `the operator of the seller revoked this worker, so it stops: ${fix}`)
}

/** The worker went away while it ran a task. Another worker may run it. */
export class WorkerGone extends Error {
  override name = 'WorkerGone'
}
