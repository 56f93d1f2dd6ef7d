import type { ListingEntry } from './listing-set.ts'

/** Of all that is held. */
export type PeerSharesOptions = { listingsMax: number; bytesMax: number }

/** Of the room, that one peer can fill with what nobody told before. */
const PEER_SHARE = 0.5

type Share = { listings: number; bytes: number }

/**
 * How much of what is held each peer has told us of first.
 *
 * Identities cost nothing, so a peer can make up sellers without end; what it cannot do is take more than its share of
 * the room, and so keep out what others tell. Known only as long as the process runs: after a restart all that is held
 * counts for nobody.
 */
export class PeerShares {
  readonly #options: PeerSharesOptions
  readonly #shares = new Map<string, Share>()

  constructor(options: PeerSharesOptions) {
    this.#options = options
  }

  /** Whether an entry fits into the share of who told of it, in the place of another version where there is one. */
  fits({ from, bytes }: ListingEntry, held: ListingEntry | undefined): boolean {
    if (from === undefined) return true
    const share = this.#shares.get(from) ?? { listings: 0, bytes: 0 }
    const growth = bytes - (held?.bytes ?? 0)
    if (held === undefined && share.listings >= PEER_SHARE * this.#options.listingsMax) return false
    return growth <= 0 || share.bytes + growth <= PEER_SHARE * this.#options.bytesMax
  }

  add({ from, bytes }: ListingEntry): void {
    this.#change(from, 1, bytes)
  }

  remove({ from, bytes }: ListingEntry): void {
    this.#change(from, -1, -bytes)
  }

  #change(from: string | undefined, listings: number, bytes: number): void {
    if (from === undefined) return
    const share = this.#shares.get(from) ?? { listings: 0, bytes: 0 }
    const changed = { listings: share.listings + listings, bytes: share.bytes + bytes }
    if (changed.listings === 0) this.#shares.delete(from)
    else this.#shares.set(from, changed)
  }
}
