import { CodedError } from '../lib/errors.ts'
import type { RequestName } from '../store/idempotency.ts'

/** The idempotency keys of a request. */
export type RequestKeys = {
  /** Those of its attempts begin with it. */
  key: string
  /** Those of the same request, whenever it was sent, begin with it. */
  prefix: string
  /** How long a result that was given answers the request when it is sent again. */
  answersMs: number
  /** Set if the client has named the request: the name is for no other one, at whatever process it comes. */
  named?: RequestName | undefined
}

export function usedByAnother(): CodedError<'IDEMPOTENCY_CONFLICT'> {
  return new CodedError('IDEMPOTENCY_CONFLICT', 'this Idempotency-Key was sent with another request: give each its own')
}
