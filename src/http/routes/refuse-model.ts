import { CodedError } from '../../lib/errors.ts'
import { HttpError } from '../problem.ts'

/** An agent that cannot run is a fault of its seller's; one that cannot be registered is a fault in the request. */
export function refuseModel(error: unknown): never {
  if (!(error instanceof CodedError) || error.code !== 'AGENT_NOT_RUNNABLE') throw error
  const issues = [{ path: 'model', message: error.message }]
  throw new HttpError('INVALID_REQUEST', `body: ${error.message}`, { issues, cause: error })
}
