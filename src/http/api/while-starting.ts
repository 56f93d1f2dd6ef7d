import { CodedError } from '../../lib/errors.ts'
import { HttpError } from '../server/problem.ts'
import type { Operation } from './operation.ts'

const RETRY_SECONDS = 2

/**
 * Lets operations on agents say STARTING instead of UNKNOWN_AGENT while the node has still to host its own agents, as
 * the doors do (T23): the agent may be one of those.
 */
export function whileStarting(rows: readonly Operation[], isStarting: () => boolean): Operation[] {
  return rows.map((row) => {
    if (!row.errors.includes('UNKNOWN_AGENT')) return row
    const handler: Operation['handler'] = async (call) => {
      try {
        return await row.handler(call)
      } catch (error) {
        throw error instanceof CodedError && error.code === 'UNKNOWN_AGENT' && isStarting() ? notYet(error) : error
      }
    }
    return { ...row, errors: [...row.errors, 'STARTING'], handler }
  })
}

function notYet(cause: CodedError): HttpError {
  const detail =
    'no agent with this id or name is known yet: this node has just started, and does not have all of its agents yet. ' +
    'Nothing was paid. Try again in a few seconds'
  return new HttpError('STARTING', detail, { cause, headers: { 'retry-after': String(RETRY_SECONDS) } })
}
