import { BoundedMap } from '../lib/bounded-map.ts'
import type { Served } from './serve.ts'

/** Orders that are remembered. The result of an order that is not known answers its request for longer. */
const GIVEN_MAX = 4_000

/** The orders of which this process knows that a client has got the result. */
export class GivenResults {
  readonly #orders = new BoundedMap<string, true>(GIVEN_MAX)

  readonly note = ({ result: { order_id: orderId } }: Served): void => {
    if (orderId !== undefined) this.#orders.set(orderId, true)
  }

  readonly has = (orderId: string): boolean => this.#orders.has(orderId)
}
