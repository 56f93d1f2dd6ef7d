import { hash } from 'node:crypto'
import type { Caller } from '../schema/caller.ts'
import { type IdempotencyKeys, type KeyedRequest, KeyTaken, type KeyTarget } from '../store/idempotency.ts'

/** The request with its key, or undefined without a key. `asked` lists every value that identifies the request. */
export function keyedRequest(
  key: string | undefined,
  { tokenId }: Caller,
  asked: readonly unknown[],
  keys: Pick<IdempotencyKeys, 'now'>,
): KeyedRequest | undefined {
  if (key === undefined) return undefined
  const text = JSON.stringify(asked, (_name, value: unknown) => (typeof value === 'bigint' ? `${value}` : value))
  return { tokenId, key, hash: hash('sha256', text, 'buffer'), at: keys.now() }
}

/**
 * Does a request once (D38). `first` stores the key in the same transaction as its result. A repeated request is
 * answered by `again`, which is `executeAgain` for a caller that waits.
 *
 * @throws CodedError IDEMPOTENCY_CONFLICT if the key came with another request before
 */
export async function once<T>(
  request: KeyedRequest | undefined,
  { keys }: { keys: Pick<IdempotencyKeys, 'find'> },
  first: () => Promise<T>,
  again: (target: KeyTarget) => T | Promise<T>,
): Promise<T> {
  const known = request && (await keys.find(request))
  if (known !== undefined) return again(known)
  try {
    return await first()
  } catch (error) {
    if (error instanceof KeyTaken) return again(error.target)
    throw error
  }
}
