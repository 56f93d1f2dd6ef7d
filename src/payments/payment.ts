import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { SETTLEMENT_MARGIN_SECONDS } from './verify.ts'

export const SETTLEMENT_ATTEMPTS_MAX = 5
/** How long one attempt may take before its outcome is unclear. */
export const ATTEMPT_TIMEOUT_MS = 30_000
/** After the first, second and third attempt: they are made at once and some 5, 20 and 60 s later (D40). */
const GAPS_MS = [5_000, 15_000, 40_000]
/** The last attempt is made when a payment has so long to live, or a little less. */
const LAST_MS = 15_000
const LAST_JITTER_MS = 5_000
/** Between attempts in those last seconds, where some are left. */
const LAST_GAP_MS = 1_000
/** A facilitator that cannot be reached, or is down, is asked again after this. */
const AWAY_WAIT_MS = 5_000
/** The facilitator's word is looked up on chain this long after it was given: RPC nodes lag behind. */
const CONFIRM_DELAY_MS = 2_000
/** Between two looks at the chain when all attempts are spent and the outcome is still unclear. */
const RECONCILE_INTERVAL_MS = 60_000
/** How long after an authorization has expired its outcome is still looked for where the chain cannot be asked. */
const RECONCILE_LIMIT_MS = 24 * 60 * 60 * 1000

/**
 * A payment the seller has accepted, from its claim to its end.
 *
 *   authorized ──executed()──▶ owed ──settled()──▶ settled
 *       │                       │ ▲
 *       │                       └─┘ attemptStarted(), accepted(), attemptFailed(), away(): at most 5 attempts in all
 *    voided()                   └──attemptFailed(), refused()──▶ unsettled ──reopened()──▶ owed
 *       ▼
 *     voided
 *
 * `voided` is final; so is `settled`, unless the chain takes it back (settled-watch.ts), and `unsettled`, unless the operator asks again. Each transition takes only the states it may leave; time, chance and
 * counts are arguments.
 */
export type Payment = Authorized | Owed | Settled | Voided | Unsettled

/** Verified, nonce claimed; the agent is running. After a restart these are voided. */
export type Authorized = { state: 'authorized'; id: Hex }
/** The agent has delivered; settlement is under way. Survives a restart. */
export type Owed = {
  state: 'owed'
  id: Hex
  attempts: number
  nextAttemptAt: UnixMs
  /** An attempt may have reached the chain although nobody said so: ask the chain before trying or giving up. */
  unclear: boolean
  /** The transaction the facilitator named; the chain has yet to show it. */
  txHash?: Hex | undefined
  error?: string | undefined
}
export type Settled = {
  state: 'settled'
  id: Hex
  txHash: Hex | undefined
  settledAt: UnixMs
  /** When the chain is asked again: a reorganization takes back what it has shown. Undefined: never. */
  lookAt?: UnixMs
}
/** The agent failed: the authorization is never submitted, the buyer is not charged. */
export type Voided = { state: 'voided'; id: Hex; error: string }
/** The work was done and was not paid for. */
export type Unsettled = {
  state: 'unsettled'
  id: Hex
  attempts: number
  error: string
  /** Chain or facilitator blames the payer: no funds, canceled, replaced (D45). */
  blamed?: boolean
}

/** The agent has delivered. The first attempt follows at once and is counted already, so that a crash cannot hide it. */
export function executed(payment: Authorized, now: UnixMs): Owed {
  return { state: 'owed', id: payment.id, attempts: 1, nextAttemptAt: now + ATTEMPT_TIMEOUT_MS, unclear: true }
}

export function voided(payment: Authorized, error: string): Voided {
  return { state: 'voided', id: payment.id, error }
}

/** Counts an attempt before it is made. */
export function attemptStarted(payment: Owed, now: UnixMs): Owed {
  return { ...payment, attempts: payment.attempts + 1, nextAttemptAt: now + ATTEMPT_TIMEOUT_MS, unclear: true }
}

/** The facilitator says it has settled; the chain is asked a little later. */
export function accepted(payment: Owed, txHash: Hex, now: UnixMs): Owed {
  return { ...payment, txHash, unclear: true, nextAttemptAt: now + CONFIRM_DELAY_MS, error: undefined }
}

export function settled(payment: Owed, txHash: Hex | undefined, now: UnixMs): Settled {
  return { state: 'settled', id: payment.id, txHash, settledAt: now }
}

/** The facilitator or the chain says that it can never be settled. */
export function refused(payment: Owed, error: string, { blamed = false } = {}): Unsettled {
  return { state: 'unsettled', id: payment.id, attempts: payment.attempts, error, ...(blamed && { blamed }) }
}

/** Nothing was asked of the facilitator: that was no attempt, and whatever the chain shows, this node did not do it. */
export function unattempted(payment: Owed): Owed {
  const attempts = payment.attempts - 1
  return { ...payment, attempts, unclear: attempts > 0 }
}

/** Its agent is gone, so that nothing could be done for the money (D39): no attempt is made as long as it does not come back. */
export function withheld(payment: Owed, now: UnixMs): Owed {
  const error = 'its agent was removed: it is not settled, and nothing is charged, unless the agent comes back in time'
  return { ...payment, error, nextAttemptAt: now + AWAY_WAIT_MS }
}

/** The operator asks for one attempt more. Whether an earlier one has paid after all is asked of the chain first. */
export function reopened(payment: Unsettled, now: UnixMs): Owed {
  const attempts = Math.min(payment.attempts, SETTLEMENT_ATTEMPTS_MAX - 1)
  return { state: 'owed', id: payment.id, attempts, nextAttemptAt: now, unclear: attempts > 0, error: payment.error }
}

/** When something is judged: by which clock, in which window. `chance` is in [0, 1): the jitter. */
export type Moment = { now: UnixMs; validBeforeMs: UnixMs; chance: number }

/** An attempt ended without settlement. What follows depends on time and on whether the chain may know more. */
export function attemptFailed(payment: Owed, failure: { error: string; unclear: boolean }, at: Moment): Payment {
  return triedAgain({ ...payment, ...failure, nextAttemptAt: attemptAfter(payment.attempts, at) }, at)
}

/**
 * There was no facilitator to ask, or it was down and the chain shows that nothing moved: that was no attempt, and another
 * follows as long as it can arrive in time. `unclear`: it was asked, so that something may move yet.
 */
export function away(payment: Owed, failure: { error: string; unclear: boolean }, at: Moment): Payment {
  const attempts = payment.attempts - 1
  // With no attempt before it there is nothing that the chain could know.
  const unclear = failure.unclear || (payment.unclear && attempts > 0)
  const nextAttemptAt = at.now + jittered(AWAY_WAIT_MS, at.chance)
  return triedAgain({ ...payment, attempts, error: failure.error, unclear, nextAttemptAt }, at)
}

function triedAgain(failed: Owed & { error: string }, at: Moment): Payment {
  const next = { ...failed, txHash: undefined }
  if (canAttempt(next, { now: next.nextAttemptAt, validBeforeMs: at.validBeforeMs })) return next
  return next.unclear ? waiting(next, at) : refused(next, next.error)
}

/**
 * Nothing is left to try, and the chain cannot say yet whether it was paid. When it never will, the facilitator's word
 * is all there is.
 */
export function waiting(payment: Owed, at: { now: UnixMs; validBeforeMs: UnixMs }): Owed | Settled | Unsettled {
  if (at.now > at.validBeforeMs + RECONCILE_LIMIT_MS) {
    if (payment.txHash !== undefined) return settled(payment, payment.txHash, at.now)
    return refused(payment, `outcome unknown, the chain could not be asked: ${payment.error ?? 'no answer'}`)
  }
  return { ...payment, nextAttemptAt: at.now + RECONCILE_INTERVAL_MS }
}

/** Whether another attempt may be made: fewer than 5 so far, and time for it to reach the chain. */
export function canAttempt(payment: Owed, at: { now: UnixMs; validBeforeMs: UnixMs }): boolean {
  return payment.attempts < SETTLEMENT_ATTEMPTS_MAX && at.now + SETTLEMENT_MARGIN_SECONDS * 1000 < at.validBeforeMs
}

/**
 * When the next attempt comes after so many: they are spread over the whole window, since whatever is down is back at some
 * time, and the last one is kept for its end (D40).
 */
export function attemptAfter(attempts: number, { now, validBeforeMs, chance }: Moment): UnixMs {
  const lastAt = validBeforeMs - LAST_MS + Math.round(LAST_JITTER_MS * chance)
  if (now >= lastAt) return now + LAST_GAP_MS
  const gap = GAPS_MS[attempts - 1]
  return gap === undefined ? lastAt : Math.min(lastAt, now + jittered(gap, chance))
}

/** 20 % more or less. */
function jittered(ms: number, chance: number): number {
  return Math.round(ms * (0.8 + 0.4 * chance))
}
