import type { Clock } from '../../lib/clock.ts'
import { Hold } from '../../lib/hold.ts'
import { Shares } from '../../lib/shares.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import type { Hex } from '../../schema/primitives.ts'

/** Requests of one payer at once. */
const PER_PAYER_MAX = 32
/** Paid requests of one payer. */
const PAYER_RATE = { burst: 200, perSecond: 50, keysMax: 10_000 }

/** What one account may ask for, at all doors where callers prove only an account. */
export class PayerLimits {
  readonly #clock: Clock
  readonly #open = new Shares({ each: PER_PAYER_MAX })
  readonly #rates = new TokenBuckets(PAYER_RATE)

  constructor(deps: { clock: Clock }) {
    this.#clock = deps.clock
  }

  /**
   * Takes a place until the end of the block. The payer must be proved: others would use up its places.
   *
   * @returns the place, or why there is none, for people
   */
  enter(payer: Hex): Hold | string {
    const key = payer.toLowerCase()
    const place = this.#open.take(key)
    if (!(place instanceof Hold)) return `at most ${PER_PAYER_MAX} requests of one account may run at once`
    if (this.#rates.take(key, 1, this.#clock.now())) return place
    place[Symbol.dispose]()
    return 'too many paid requests from this account'
  }
}
