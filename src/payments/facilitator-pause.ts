import { type Clock, monotonicOf } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Facilitator, SettleOutcome } from './facilitator.ts'

const PAUSE_MS = 1_000

/** Leaves a facilitator that could not be reached alone for 1 s: payments get the same `unreached` outcome at once. */
export function withPause(facilitator: Facilitator, { clock, logger }: { clock: Clock; logger: Logger }): Facilitator {
  let away: { outcome: SettleOutcome; at: number } | undefined
  return {
    ...facilitator,
    async settle(signed, requirements, signal) {
      const since = monotonicOf(clock) - (away?.at ?? Number.NEGATIVE_INFINITY)
      if (away !== undefined && since < PAUSE_MS) return away.outcome
      const outcome = await facilitator.settle(signed, requirements, signal)
      if (outcome.kind === 'unreached') {
        if (away === undefined) logger.warn({ reason: outcome.reason }, 'settlement waits for the facilitator')
        away = { outcome, at: monotonicOf(clock) }
      } else {
        if (away !== undefined) logger.info({}, 'the facilitator is back')
        away = undefined
      }
      return outcome
    },
  }
}
