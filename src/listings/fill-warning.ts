import type { Logger } from '../lib/logger.ts'

/** The replica warns when it is this full. */
const WARN_SHARE = 0.8
/** Below this share the warning is armed again. */
const CALM_SHARE = 0.75

type Fill = { listings: number; listingsMax: number; bytes: number; bytesMax: number }

/** Warns once when the replica of the market fills up. It warns again only after there was room in between. */
export class FillWarning {
  readonly #logger: Logger
  #warned = false

  constructor(logger: Logger) {
    this.#logger = logger
  }

  look({ listings, listingsMax, bytes, bytesMax }: Fill): void {
    const share = Math.max(listings / listingsMax, bytes / bytesMax)
    if (share < CALM_SHARE) this.#warned = false
    if (share < WARN_SHARE || this.#warned) return
    this.#warned = true
    this.#logger.warn(
      { listings, listings_max: listingsMax, bytes, bytes_max: bytesMax },
      `the replica of the market is ${Math.floor(100 * share)} % full. Once it is full, listings of the peers that told ` +
        'most of them leave for new ones. Block a peer that floods the market: `stoa status` shows the peers',
    )
  }
}
