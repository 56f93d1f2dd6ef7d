import { CodedError } from '../lib/errors.ts'
import type { RequestName } from '../store/idempotency.ts'

/** The idempotency keys of a request. */
export type RequestKeys = {
  /** Those of the same request, whenever and wherever it was sent, begin with it. */
  prefix: string
  /** How long a result that was given answers the request when it is sent again. */
  answersMs: number
  /** Set if the client has named the request: the name is for no other one, at whatever process it comes. */
  given?: GivenKey | undefined
}
/** `key`: those of the attempts begin with it. */
type GivenKey = { key: string; name: RequestName }

/** The attempt of a request before, or the place before the first one. */
export type KeyPlace = { key: string; attempt: number }

/**
 * Where the attempts of a request go on. The ledger says what was before, and no clock: processes that get one request at the
 * same moment choose the same key, and only one of them buys.
 *
 * @param isOver true if the attempt before has bought something, so that a new purchase begins
 */
export function placeAfter(
  before: (KeyPlace & { isOver: boolean }) | undefined,
  { prefix, given }: RequestKeys,
): KeyPlace {
  if (given !== undefined && before?.key !== given.key) return { key: given.key, attempt: 0 }
  if (before === undefined) return { key: `${prefix}1`, attempt: 0 }
  // The keys of attempts that are over name them for ever.
  if (given !== undefined || !before.isOver) return before
  return { key: `${prefix}${Number(before.key.slice(prefix.length)) + 1}`, attempt: 0 }
}

export function usedByAnother(): CodedError<'IDEMPOTENCY_CONFLICT'> {
  return new CodedError('IDEMPOTENCY_CONFLICT', 'this Idempotency-Key was sent with another request: give each its own')
}
