import { BoundedMap } from '../../lib/bounded-map.ts'
import { FairPlaces } from '../../lib/fair-places.ts'
import { Hold } from '../../lib/hold.ts'

/** Checks at once, of sites that have not paid. A check takes the CPU of a signature, and a question to the RPC. */
const CHECKS_MAX = 16
const SITES_MAX = 10_000

/**
 * The order in which payments are checked. Made-up payments cost their senders nothing, and each costs this node a check. So
 * a site that has paid goes at once, until a payment of it buys nothing, and the others take turns.
 */
export class PaymentChecks {
  readonly #places = new FairPlaces(CHECKS_MAX)
  readonly #paid = new BoundedMap<string, true>(SITES_MAX)

  /** The end of the block gives the turn to the next. */
  async turn(site: string): Promise<Hold> {
    return this.#paid.has(site) ? new Hold(undefined) : this.#places.take(site)
  }

  paid(site: string): void {
    this.#paid.set(site, true)
  }

  blame(site: string): void {
    this.#paid.delete(site)
  }
}
