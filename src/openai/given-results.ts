import { BoundedMap } from '../lib/bounded-map.ts'
import type { Served } from './serve.ts'

/** Orders remembered. Beyond it the oldest is forgotten, and its result answers its request for longer. */
const GIVEN_MAX = 4_000

/** The orders whose result this process has given to a client. */
export class GivenResults {
  readonly #orders = new BoundedMap<string, true>(GIVEN_MAX)

  readonly note = ({ result: { order_id: orderId } }: Served): void => {
    if (orderId !== undefined) this.#orders.set(orderId, true)
  }

  readonly has = (orderId: string): boolean => this.#orders.has(orderId)
}
