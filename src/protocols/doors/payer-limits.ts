import type { Clock } from '../../lib/clock.ts'
import { Hold } from '../../lib/hold.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import type { Hex } from '../../schema/primitives.ts'

/** Requests of one payer at once. */
const PER_PAYER_MAX = 32
/** Paid requests of one payer. */
const PAYER_RATE = { burst: 200, perSecond: 50, keysMax: 10_000 }

/** What one account may ask for at all doors on which callers prove nothing else. */
export class PayerLimits {
  readonly #clock: Clock
  readonly #open = new Map<string, number>()
  readonly #rates = new TokenBuckets(PAYER_RATE)

  constructor(deps: { clock: Clock }) {
    this.#clock = deps.clock
  }

  /**
   * Takes a place until the end of the block. The payer must be proved: others would use up its places.
   *
   * @returns why there is none, for people
   */
  enter(payer: Hex): Hold | string {
    const key = payer.toLowerCase()
    const own = this.#open.get(key) ?? 0
    if (own >= PER_PAYER_MAX) return `at most ${PER_PAYER_MAX} requests of one account may run at once`
    if (!this.#rates.take(key, 1, this.#clock.now())) return 'too many paid requests from this account'
    this.#open.set(key, own + 1)
    return new Hold(() => {
      const rest = this.#open.get(key)! - 1
      if (rest > 0) this.#open.set(key, rest)
      else this.#open.delete(key)
    })
  }
}
