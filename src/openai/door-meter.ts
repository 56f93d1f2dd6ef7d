import { openAiMeters } from '../ledger/door-meters.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Meters } from '../lib/meters.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { answerTo } from './serve.ts'

export type DoorOutcome = 'answered' | 'refused' | 'limited' | 'failed' | 'paid_but_failed' | 'left'

/** Counts the calls through the door, how they end, how long they take and what they spend. */
export class DoorMeter {
  readonly #meters: Pick<Meters, 'count' | 'observe'>
  readonly #clock: Clock

  constructor(meters: Pick<Meters, 'count' | 'observe'>, clock: Clock) {
    this.#meters = meters
    this.#clock = clock
  }

  /** Measures one request. @throws what `handle` throws */
  async measure(handle: () => Promise<DoorOutcome>): Promise<void> {
    const since = monotonicOf(this.#clock)
    let outcome: DoorOutcome = 'failed'
    this.#meters.count(openAiMeters.running, {}, 1)
    try {
      outcome = await handle()
    } catch (error) {
      outcome = outcomeOf(error)
      throw error
    } finally {
      this.#meters.count(openAiMeters.running, {}, -1)
      this.#meters.count(openAiMeters.requests, { outcome })
      this.#meters.observe(openAiMeters.seconds, Math.max(0, monotonicOf(this.#clock) - since) / 1000)
    }
  }

  /** A request got the outcome of another one. */
  joined(): void {
    this.#meters.count(openAiMeters.joined, {})
  }

  /** A call that was bought has its answer. */
  bought({ payment }: Pick<ExecutionResult, 'payment'>): void {
    if (payment !== null) this.#meters.count(openAiMeters.spent, {}, Number(payment.amount))
  }
}

/** How a request ended that was answered with this error. */
export function outcomeOf(error: unknown): DoorOutcome {
  const answer = answerTo(error)
  if (answer === undefined) return 'failed'
  if (answer.body.error.code === 'paid_but_failed') return 'paid_but_failed'
  if (answer.status === 429) return 'limited'
  return answer.status < 500 ? 'refused' : 'failed'
}
