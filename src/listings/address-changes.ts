import { BoundedMap } from '../lib/bounded-map.ts'
import type { UnixMs } from '../lib/clock.ts'
import { doubledMs } from '../lib/retry.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { LISTINGS_PER_SELLER_MAX } from './set.ts'

/** Half of what other nodes take of one seller: the rest is for prices, new agents and tombstones. */
const ALL = { burst: 128, perSecond: 0.25, keysMax: 1 }
/** Changes of addresses that one listing follows at once. Then one in 5 min, at which all listings get their turn. */
const OF_ONE = { burst: 8, perSecond: 1 / 300, keysMax: LISTINGS_PER_SELLER_MAX }
/** Wait before this process corrects another process of the seller again. */
const CORRECTION = { firstMs: 60_000, mostMs: 6 * 60 * 60 * 1000 }

/** `addresses`: what this process said last, or found said. `differsAt`: since when the listing has others. */
type Said = { addresses: string; corrections: number; differsAt?: UnixMs | undefined }

/**
 * Decides when a listing is signed again only because of its addresses. A relay that names other addresses every few
 * seconds does not use up what others take of a seller (T31). Two processes of a seller that see different addresses do
 * not sign against each other without end: each says once what it sees, and corrects the other after ever longer waits.
 */
export class AddressChanges {
  readonly #all = new TokenBuckets(ALL)
  readonly #one = new TokenBuckets(OF_ONE)
  readonly #said = new BoundedMap<string, Said>(LISTINGS_PER_SELLER_MAX)

  /** True if the listing is to be signed with these addresses, which are not the ones that it has. */
  isDue(id: string, addresses: readonly string[], now: UnixMs): boolean {
    const said = this.#said.get(id)
    if (said?.addresses !== textOf(addresses)) return this.#all.has('', 1, now) && this.#one.has(id, 1, now)
    // Another process signed it. It may know of a change that this one hears of in a moment.
    said.differsAt = Math.min(said.differsAt ?? now, now)
    if (now - said.differsAt < doubledMs(said.corrections + 1, CORRECTION)) return false
    said.corrections += 1
    said.differsAt = undefined
    return true
  }

  /** Notes the addresses of a listing that any process signed. `isNew`: this process signed it. */
  note(id: string, addresses: readonly string[], now: UnixMs, isNew = false): void {
    const text = textOf(addresses)
    const said = this.#said.get(id)
    if (isNew && said !== undefined && said.addresses !== text) {
      this.#all.take('', 1, now)
      this.#one.take(id, 1, now)
    }
    const corrections = said?.addresses === text ? said.corrections : 0
    this.#said.set(id, { addresses: text, corrections })
  }
}

function textOf(addresses: readonly string[]): string {
  return addresses.toSorted().join(' ')
}
