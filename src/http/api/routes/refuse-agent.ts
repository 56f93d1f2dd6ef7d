import { CodedError } from '../../../lib/errors.ts'
import { HttpError } from '../../server/problem.ts'

/** The field to blame for a well-formed agent that this node cannot host, by error code. */
const faulty: Readonly<Record<string, string>> = { AGENT_NOT_RUNNABLE: 'model', LISTING_INVALID: 'description' }
const unwritten = ['AGENTS_FILE_UNWRITABLE', 'FILE_LOCKED']

/**
 * Converts the error of a registration or change into a fault of the request. Elsewhere an agent that cannot run is the
 * seller's fault, and one that cannot be listed is the node's.
 */
export function refuseAgent(error: unknown): never {
  if (!(error instanceof CodedError)) throw error
  if (unwritten.includes(error.code)) throw new HttpError('STORE_WRITE_FAILED', error.message, { cause: error })
  const path = faulty[error.code]
  if (path === undefined) throw error
  throw new HttpError('INVALID_REQUEST', error.message, {
    issues: [{ path, message: error.message }],
    cause: error,
  })
}
