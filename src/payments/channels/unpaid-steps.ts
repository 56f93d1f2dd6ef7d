import { BoundedMap } from '../../lib/bounded-map.ts'
import { type Clock, monotonicOf } from '../../lib/clock.ts'
import { Hold } from '../../lib/hold.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import type { Hex } from '../../schema/primitives.ts'

const KEPT_MAX = 10_000
const HOUR_SECONDS = 3_600

/** `cost`: of one transaction, in atomic units of the token. `ofPayer`, `ofAll`: unpaid transactions in an hour. */
type UnpaidOptions = { cost: bigint; ofPayer: number; ofAll: number }

/** `charged`: what the channel has been charged so far. */
type PaidStep = { id: Hex; payer: string; charged: bigint }

/**
 * The transactions of one kind that a seller sends for buyers, and that no call has paid for. A buyer gets its deposits back, and could
 * have its seller pay for transactions without end (hazard 4.19). One account must not use up what all may have.
 */
export class UnpaidSteps {
  readonly #clock: Clock
  readonly #cost: bigint
  readonly #ofPayer: TokenBuckets
  readonly #ofAll: TokenBuckets
  /** What channels had been charged at their last transaction. */
  readonly #before = new BoundedMap<Hex, bigint>(KEPT_MAX)

  constructor({ cost, ofPayer, ofAll }: UnpaidOptions, { clock }: { clock: Clock }) {
    this.#clock = clock
    this.#cost = cost
    this.#ofPayer = new TokenBuckets({ burst: ofPayer, perSecond: ofPayer / HOUR_SECONDS, keysMax: KEPT_MAX })
    this.#ofAll = new TokenBuckets({ burst: ofAll, perSecond: ofAll / HOUR_SECONDS, keysMax: 1 })
  }

  /**
   * Counts a transaction until the end of the block, and for good if it is kept. Its payer must be proved.
   *
   * @returns undefined if there are too many
   */
  take({ id, payer, charged }: PaidStep): Hold | undefined {
    const [key, now] = [payer.toLowerCase(), monotonicOf(this.#clock)]
    const before = this.#before.get(id)
    const isPaid = charged - (before ?? 0n) >= this.#cost
    if (!isPaid) {
      if (!this.#ofPayer.has(key, 1, now) || !this.#ofAll.take('', 1, now)) return undefined
      this.#ofPayer.take(key, 1, now)
    }
    this.#before.set(id, charged)
    return new Hold(() => {
      if (before === undefined) this.#before.delete(id)
      else this.#before.set(id, before)
      if (isPaid) return
      this.#ofAll.give('', 1, monotonicOf(this.#clock))
      this.#ofPayer.give(key, 1, monotonicOf(this.#clock))
    })
  }
}
