import { CodedError } from '../../../lib/errors.ts'
import { HttpError } from '../../server/problem.ts'

/** Fields by which an agent cannot be had here, although each is well formed. */
const faulty: Readonly<Record<string, string>> = { AGENT_NOT_RUNNABLE: 'model', LISTING_INVALID: 'description' }
const unwritten = ['AGENTS_FILE_UNWRITABLE', 'FILE_LOCKED']

/**
 * An agent that cannot run is a fault of its seller's, one that cannot be listed the node's own; where it is only being
 * registered or changed, both are faults in the request.
 */
export function refuseAgent(error: unknown): never {
  if (!(error instanceof CodedError)) throw error
  if (unwritten.includes(error.code)) throw new HttpError('STORE_WRITE_FAILED', error.message, { cause: error })
  const path = faulty[error.code]
  if (path === undefined) throw error
  throw new HttpError('INVALID_REQUEST', `body: ${error.message}`, {
    issues: [{ path, message: error.message }],
    cause: error,
  })
}
