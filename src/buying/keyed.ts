import { createHash } from 'node:crypto'
import type { Caller } from '../schema/caller.ts'
import { type IdempotencyKeys, type KeyedRequest, KeyTaken, type KeyTarget } from '../store/idempotency.ts'

/** A request with its key, if it was sent with one. `asked` is all that makes it this request. */
export function keyedRequest(
  key: string | undefined,
  { tokenId }: Caller,
  asked: readonly unknown[],
  keys: Pick<IdempotencyKeys, 'now'>,
): KeyedRequest | undefined {
  if (key === undefined) return undefined
  const text = JSON.stringify(asked, (_name, value: unknown) => (typeof value === 'bigint' ? `${value}` : value))
  return { tokenId, key, hash: createHash('sha256').update(text).digest(), at: keys.now() }
}

/**
 * Does a request once (D38): `first` binds its key in the transaction that stores what it makes, and `again` answers the same
 * request from then on.
 *
 * @throws CodedError IDEMPOTENCY_CONFLICT when the key was sent with another request
 */
export async function once<T>(
  request: KeyedRequest | undefined,
  { keys }: { keys: Pick<IdempotencyKeys, 'find'> },
  first: () => Promise<T>,
  again: (target: KeyTarget) => T | Promise<T>,
): Promise<T> {
  const known = request && keys.find(request)
  if (known !== undefined) return again(known)
  try {
    return await first()
  } catch (error) {
    if (error instanceof KeyTaken) return again(error.target)
    throw error
  }
}
