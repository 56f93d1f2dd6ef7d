import { Hold } from '../lib/hold.ts'
import { Shares } from '../lib/shares.ts'
import type { Order } from '../store/purchases.ts'

/** Placed orders of one token that execute at the same time: half of all. One token cannot keep those of others waiting. */
const PER_TOKEN_MAX = 16

/** Which placed orders may execute now, as far as their tokens go. */
export class OrderTurns {
  readonly #running = new Shares({ each: PER_TOKEN_MAX })
  /** Orders that wait for another one of their token to end. */
  readonly #waiting = new Map<string, Set<string>>()

  /** Takes a place until the end of the block. Undefined: the order waits, until `next` names it. */
  enter({ id, tokenId }: Pick<Order, 'id' | 'tokenId'>): Hold | undefined {
    if (tokenId === undefined) return new Hold(undefined)
    const place = this.#running.take(tokenId)
    if (place instanceof Hold) return place
    this.#waiting.set(tokenId, (this.#waiting.get(tokenId) ?? new Set()).add(id))
    return undefined
  }

  /** An order of this token has ended, or never began: the one that has waited longest may try. */
  next(tokenId: string | undefined): string | undefined {
    const waiting = tokenId === undefined ? undefined : this.#waiting.get(tokenId)
    const [id] = waiting ?? []
    if (waiting === undefined || id === undefined) return undefined
    waiting.delete(id)
    if (waiting.size === 0) this.#waiting.delete(tokenId!)
    return id
  }
}
