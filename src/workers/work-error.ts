import { CodedError } from '../lib/errors.ts'
import type { WorkRefusal } from '../schema/work.ts'

/** Why a worker is not let in, or is cut off. The worker is told. */
export class WorkError extends CodedError<WorkRefusal> {
  override name = 'WorkError'
}

export function revoked(): WorkError {
  return new WorkError('REVOKED', 'the operator of the seller revoked this worker')
}

/** The worker went away while it ran a task. Another worker may run it. */
export class WorkerGone extends Error {
  override name = 'WorkerGone'
}
