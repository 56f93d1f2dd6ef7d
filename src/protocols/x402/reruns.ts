import { BoundedMap } from '../../lib/bounded-map.ts'
import { type Clock, monotonicOf } from '../../lib/clock.ts'
import { doubledMs } from '../../lib/retry.ts'
import type { Hex } from '../../schema/primitives.ts'

/** Runs of one payment that may fail before the next run has to wait. */
const FREE_FAILURES = 5
const PAUSE = { firstMs: 5_000, mostMs: 10 * 60 * 1000 }
/** Payments with a count of failed runs. Beyond it the payment that failed longest ago is dropped. */
const PAYMENTS_MAX = 10_000

/**
 * Paces paid runs that failed. A request for the result runs them again (D45), but not at every request. Otherwise a
 * task that always fails would keep the agent working without end for one payment (T7).
 */
export class Reruns {
  readonly #clock: Clock
  /** `from`: the monotonic time from which the next run is allowed. */
  readonly #failed = new BoundedMap<Hex, { count: number; from: number }>(PAYMENTS_MAX)

  constructor(deps: { clock: Clock }) {
    this.#clock = deps.clock
  }

  /** Time until a payment may run again, in ms. 0 means now. */
  waitMs(id: Hex): number {
    const failed = this.#failed.get(id)
    return failed === undefined ? 0 : Math.max(0, failed.from - monotonicOf(this.#clock))
  }

  failed(id: Hex): void {
    const count = (this.#failed.get(id)?.count ?? 0) + 1
    const pauseMs = count < FREE_FAILURES ? 0 : doubledMs(count - FREE_FAILURES + 1, PAUSE)
    this.#failed.set(id, { count, from: monotonicOf(this.#clock) + pauseMs })
  }

  done(id: Hex): void {
    this.#failed.delete(id)
  }
}
