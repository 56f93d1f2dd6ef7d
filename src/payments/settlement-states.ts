import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Claim, StoredPayment } from '../store/payments.ts'
import { askChain, askChainAfter, hasPassed, type PaymentChain, queryOf } from './chain-verdict.ts'
import { NO_FUNDS } from './facilitator.ts'
import { validBeforeMs } from './outbox-entry.ts'
import {
  accepted,
  attemptFailed,
  away,
  hasAttempts,
  type OwedPayment,
  type Payment,
  postponed,
  refused,
  settled,
  unattempted,
  waiting,
} from './payment.ts'
import type { AttemptOutcome } from './settle-attempts.ts'

type StateDeps = {
  clock: Clock
  logger: Logger
  /** Undefined: no RPC is configured and the facilitator's report decides. */
  chain?: PaymentChain | undefined
  /** A number in [0, 1) for the jitter of the back-off. */
  chance(): number
}

/** The fields of an accepted payment that its settlement needs. */
export type ClaimedPayment = Pick<Claim, 'id' | 'correlationId' | 'signed' | 'requirements'>

/** The next state of an unclear payment by what the chain shows; undefined if it must be tried again. */
export async function shownState(
  payment: StoredPayment,
  owed: OwedPayment,
  { chain, clock, logger, chance }: StateDeps,
): Promise<Payment | undefined> {
  if (chain === undefined) return undefined
  const at = { now: clock.now(), validBeforeMs: validBeforeMs(payment) }
  // Only a block past the window proves that nothing more can settle: our clock may be fast, and the chain may stall.
  const ask = at.now > at.validBeforeMs ? askChainAfter : askChain
  const verdict = await ask(queryOf(payment, owed.txHash), chain)
  if (verdict.kind === 'paid') return settled(owed, verdict.txHash, at.now)
  if (verdict.kind === 'never') return refused(owed, verdict.reason, { blamed: true })
  if (verdict.kind === 'unknown') {
    logger.warn({ ...idsOf(payment), reason: verdict.reason }, 'the chain cannot tell about a payment')
    if (verdict.mayPay === true) return postponed(owed, at.now)
    // The facilitator reports it as paid: make no attempt, wait until the chain shows it.
    return owed.txHash === undefined ? undefined : waiting(owed, at)
  }
  if (at.now > at.validBeforeMs) return refused(owed, `expired unpaid: ${owed.error ?? 'no attempt succeeded'}`)
  if (owed.txHash !== undefined) {
    const error = `the facilitator named ${owed.txHash}, but the chain shows no such payment`
    return attemptFailed(owed, { error, unclear: true }, { ...at, chance: chance() })
  }
  return undefined
}

/**
 * The next state of a payment for which no attempt is left, or none in time by our clock. The time of the chain decides, if it
 * can be asked: a clock that runs ahead must give nothing up.
 */
export async function stateWithoutAttempt(
  payment: StoredPayment,
  owed: OwedPayment,
  { chain, clock }: Pick<StateDeps, 'chain' | 'clock'>,
): Promise<Payment> {
  const at = { now: clock.now(), validBeforeMs: validBeforeMs(payment) }
  const end = () => refused(owed, owed.error ?? 'not settled in time')
  if (chain === undefined) return end()
  if (owed.unclear) return waiting(owed, at)
  // Nothing has reached the facilitator, so the chain has no more to show than its time.
  const isOver = hasAttempts(owed) ? await hasPassed(at.validBeforeMs, chain) : true
  if (isOver === undefined) return waiting(owed, at)
  return isOver ? end() : postponed(owed, at.now)
}

/** The next state of a payment by the outcome of an attempt, and by the chain where that leaves a doubt. */
export async function stateAfter(
  { payment, owed }: { payment: ClaimedPayment; owed: OwedPayment },
  outcome: AttemptOutcome,
  { clock, logger, chain, chance }: StateDeps,
): Promise<Payment> {
  if (outcome.kind === 'settled') {
    const { txHash } = outcome
    return chain === undefined ? settled(owed, txHash, clock.now()) : accepted(owed, txHash, clock.now())
  }
  const { reason } = outcome
  if (outcome.kind === 'spent') return refused(unattempted(owed), reason, { blamed: true })
  const isAway = outcome.kind === 'unreached' || outcome.kind === 'down'
  // Logged once per payment. The facilitator's return is logged once for all.
  if (isAway && owed.error === undefined)
    logger.info({ ...idsOf(payment), reason }, 'settlement waits for the facilitator')
  if (!isAway) logger.warn({ ...idsOf(payment), count: owed.attempts, reason }, 'settlement attempt failed')
  const asksChain = chain !== undefined
  const moment = () => ({ now: clock.now(), validBeforeMs: validBeforeMs(payment), chance: chance(), asksChain })
  if (outcome.kind === 'unreached') return away(owed, { error: reason, unclear: false }, moment())
  if (outcome.kind !== 'unclear') {
    // "No money", "expired" or "down" can also mean that an earlier attempt has paid. The chain decides.
    const verdict = chain && (await askChain(queryOf(payment), chain))
    if (verdict?.kind === 'paid') return settled(owed, verdict.txHash, clock.now())
    if (outcome.kind === 'refused' && verdict?.kind !== 'unknown')
      return refused(owed, reason, { blamed: verdict?.kind === 'never' || NO_FUNDS.test(reason) })
    if (verdict?.kind === 'never') return refused(owed, verdict.reason, { blamed: true })
    if (verdict?.kind === 'unpaid') return away(owed, { error: reason, unclear: true }, moment())
  }
  return attemptFailed(owed, { error: reason, unclear: asksChain }, moment())
}

/** Log fields shared with the exchange, so that both are found together, here and at the buyer. */
export function idsOf({ id, correlationId }: Pick<Claim, 'id' | 'correlationId'>) {
  return { payment_id: id, correlation_id: correlationId }
}
