import { BoundedMap } from '../../lib/bounded-map.ts'
import { type Clock, monotonicOf } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import { doubledMs } from '../../lib/retry.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Payments, StoredPayment } from '../../store/payments.ts'

/** Runs of one payment that may fail before the next run has to wait. */
const FREE_FAILURES = 5
const PAUSE = { firstMs: 5_000, mostMs: 10 * 60 * 1000 }
/** Payments with a count of failed runs. Beyond it the payment that failed longest ago is dropped. */
const PAYMENTS_MAX = 10_000

type RerunsDeps = { clock: Clock; logger: Logger; payments: Pick<Payments, 'runFailed'> }

/**
 * Paces paid runs that failed. A request for the result runs them again (D45), but not at every request. Otherwise a
 * task that always fails would keep the agent working without end for one payment (T7).
 *
 * The ledger counts, for all processes of a seller and after a restart. What failed here is paced here too, by a clock
 * that does not jump.
 */
export class Reruns {
  readonly #deps: RerunsDeps
  /** `from`: the monotonic time from which the next run is allowed. */
  readonly #failed = new BoundedMap<Hex, { count: number; from: number }>(PAYMENTS_MAX)

  constructor(deps: RerunsDeps) {
    this.#deps = deps
  }

  /** Time until a payment may run again, in ms. 0: at once. */
  waitMs({ id, failedRuns }: Pick<StoredPayment, 'id' | 'failedRuns'>): number {
    const { clock } = this.#deps
    const here = (this.#failed.get(id)?.from ?? 0) - monotonicOf(clock)
    if (failedRuns === undefined) return Math.max(0, here)
    const pauseMs = pauseAfter(failedRuns.count)
    // A clock that was set back makes no pause longer.
    const anywhere = Math.min(pauseMs, failedRuns.lastAt + pauseMs - clock.now())
    return Math.max(0, here, anywhere)
  }

  /** Resolves when other processes know it. Never rejects. */
  async failed(id: Hex): Promise<void> {
    const { clock, logger, payments } = this.#deps
    const known = (this.#failed.get(id)?.count ?? 0) + 1
    const count = await payments.runFailed(id, clock.now()).catch((err: unknown) => {
      logger.warn({ payment_id: id, err }, 'could not store that a paid run has failed: only this process knows it')
      return known
    })
    this.#failed.set(id, { count, from: monotonicOf(clock) + pauseAfter(count) })
  }

  done(id: Hex): void {
    this.#failed.delete(id)
  }
}

function pauseAfter(failures: number): number {
  return failures < FREE_FAILURES ? 0 : doubledMs(failures - FREE_FAILURES + 1, PAUSE)
}
