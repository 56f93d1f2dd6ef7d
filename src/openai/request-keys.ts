import { CodedError } from '../lib/errors.ts'
import { Hold } from '../lib/hold.ts'

/** The idempotency keys of a request. */
export type RequestKeys = {
  /** Those of its attempts begin with it. */
  key: string
  /** Those of the same request, whenever it was sent, begin with it. */
  prefix: string
  /** How long a result that was given answers the request when it is sent again. */
  answersMs: number
  /** True if the client has named the request: the name is for no other one. */
  isGiven?: boolean
}

type Use = { key: string; requests: number }

/**
 * The Idempotency-Keys of requests that run. The ledger knows the request of a key once it has an order: until then another
 * request with this key would be bought too.
 */
export class KeysInUse {
  readonly #uses = new Map<string, Use>()

  /** Marks the key until the end of the block. @throws CodedError IDEMPOTENCY_CONFLICT if another request has it now */
  enter(tokenId: string, { prefix, key, isGiven }: RequestKeys): Hold | undefined {
    if (isGiven !== true) return undefined
    const name = `${tokenId} ${prefix}`
    const use = this.#uses.get(name) ?? { key, requests: 0 }
    if (use.key !== key) throw usedByAnother()
    this.#uses.set(name, use)
    use.requests++
    return new Hold(() => {
      if (--use.requests === 0) this.#uses.delete(name)
    })
  }
}

export function usedByAnother(): CodedError<'IDEMPOTENCY_CONFLICT'> {
  return new CodedError('IDEMPOTENCY_CONFLICT', 'this Idempotency-Key was sent with another request: give each its own')
}
