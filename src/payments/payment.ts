import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { SETTLEMENT_MARGIN_SECONDS } from './verify.ts'

export const SETTLEMENT_ATTEMPTS_MAX = 5
/** After this time the outcome of an attempt is unclear. */
export const ATTEMPT_TIMEOUT_MS = 30_000
/** Waits after the first, second and third attempt. Attempts start at once and about 5, 20 and 60 s later (D40). */
const GAPS_MS = [5_000, 15_000, 40_000]
/** The last attempt starts when the authorization is valid for this long, or up to `LAST_JITTER_MS` less. */
const LAST_MS = 15_000
const LAST_JITTER_MS = 5_000
/** Wait between attempts in those last seconds, if any are left. */
const LAST_GAP_MS = 1_000
/** Wait before asking again a facilitator that is down or cannot be reached. */
const AWAY_WAIT_MS = 5_000
/** Wait before looking up on chain what the facilitator reported: RPC nodes lag. */
const CONFIRM_DELAY_MS = 2_000
/** Wait between two looks at the chain when no attempts are left and the outcome is unclear. */
const RECONCILE_INTERVAL_MS = 60_000
/** An unclear outcome is given up this long after the authorization expired, if the chain cannot be asked. */
const RECONCILE_LIMIT_MS = 24 * 60 * 60 * 1000

/**
 * A payment that the seller has accepted, from its claim to its end.
 *
 *   authorized ──executed()──▶ owed ──settled()──▶ settled
 *       │                       │ ▲
 *       │                       └─┘ attemptStarted(), accepted(), attemptFailed(), away(): at most 5 attempts in all
 *    voided()                   └──attemptFailed(), refused()──▶ unsettled ──reopened()──▶ owed
 *       ▼
 *     voided
 *
 * `voided` is final. `settled` is final unless the chain undoes it (settled-watch.ts), `unsettled` unless the operator
 * retries. Each transition takes only the states that it may leave. Time, chance and counts are arguments.
 */
export type Payment = AuthorizedPayment | OwedPayment | SettledPayment | VoidedPayment | UnsettledPayment

/** Verified, nonce claimed, the agent is running. A restart voids these payments. */
type AuthorizedPayment = { state: 'authorized'; id: Hex }
/** The agent has delivered; settlement is in progress. Survives a restart. */
export type OwedPayment = {
  state: 'owed'
  id: Hex
  attempts: number
  nextAttemptAt: UnixMs
  /** An attempt may have reached the chain without an answer: ask the chain before trying again or giving up. */
  unclear: boolean
  /** The transaction that the facilitator named. The chain does not show it yet. */
  txHash?: Hex | undefined
  error?: string | undefined
}
export type SettledPayment = {
  state: 'settled'
  id: Hex
  txHash: Hex | undefined
  settledAt: UnixMs
  /** When to ask the chain again, since a reorganization can undo a settlement. Undefined: never. */
  lookAt?: UnixMs
}
/** The agent failed. The authorization is never submitted and the buyer is not charged. */
type VoidedPayment = { state: 'voided'; id: Hex; error: string }
type UnsettledPayment = {
  state: 'unsettled'
  id: Hex
  attempts: number
  error: string
  /** Chain or facilitator blames the payer: no funds, authorization canceled or replaced (D45). */
  blamed?: boolean
}

/** The agent has delivered. The first attempt follows at once, and counts already so that a crash cannot hide it. */
export function executed(payment: AuthorizedPayment, now: UnixMs): OwedPayment {
  return { state: 'owed', id: payment.id, attempts: 1, nextAttemptAt: now + ATTEMPT_TIMEOUT_MS, unclear: true }
}

/** The agent has delivered. The outbox makes the first attempt, because none can begin at once. */
export function queued(payment: AuthorizedPayment, now: UnixMs): OwedPayment {
  return { state: 'owed', id: payment.id, attempts: 0, nextAttemptAt: now, unclear: false }
}

export function voided(payment: AuthorizedPayment, error: string): VoidedPayment {
  return { state: 'voided', id: payment.id, error }
}

export function attemptStarted(payment: OwedPayment, now: UnixMs): OwedPayment {
  return { ...payment, attempts: payment.attempts + 1, nextAttemptAt: now + ATTEMPT_TIMEOUT_MS, unclear: true }
}

/** The facilitator reports a settlement. The chain is asked a little later. */
export function accepted(payment: OwedPayment, txHash: Hex, now: UnixMs): OwedPayment {
  return { ...payment, txHash, unclear: true, nextAttemptAt: now + CONFIRM_DELAY_MS, error: undefined }
}

export function settled(payment: OwedPayment, txHash: Hex | undefined, now: UnixMs): SettledPayment {
  return { state: 'settled', id: payment.id, txHash, settledAt: now }
}

/** The facilitator or the chain says that the payment can never be settled. */
export function refused(payment: OwedPayment, error: string, { blamed = false } = {}): UnsettledPayment {
  return { state: 'unsettled', id: payment.id, attempts: payment.attempts, error, ...(blamed && { blamed }) }
}

/** Takes back an attempt in which the facilitator was not asked: this node did not cause what the chain shows. */
export function unattempted(payment: OwedPayment): OwedPayment {
  const attempts = payment.attempts - 1
  return { ...payment, attempts, unclear: attempts > 0 }
}

/** The agent was removed, so the buyer would pay for nothing (D39). No attempt is made until the agent returns. */
export function withheld(payment: OwedPayment, now: UnixMs): OwedPayment {
  const error = 'its agent was removed: it is not settled, and nothing is charged, unless the agent comes back in time'
  return { ...payment, error, nextAttemptAt: now + AWAY_WAIT_MS }
}

/** The operator asks for one more attempt. The chain is asked first whether an earlier attempt has paid. */
export function reopened(payment: UnsettledPayment, now: UnixMs): OwedPayment {
  const attempts = Math.min(payment.attempts, SETTLEMENT_ATTEMPTS_MAX - 1)
  return { state: 'owed', id: payment.id, attempts, nextAttemptAt: now, unclear: attempts > 0, error: payment.error }
}

/** The time, the end of the window and the jitter (`chance`, in [0, 1)) for a decision. */
type Moment = {
  now: UnixMs
  validBeforeMs: UnixMs
  chance: number
  /** True: the chain says whether the window has ended, because our clock may be fast. */
  asksChain?: boolean
}

/** An attempt ended without settlement. The next state depends on the time and on whether the chain may know more. */
export function attemptFailed(payment: OwedPayment, failure: { error: string; unclear: boolean }, at: Moment): Payment {
  return triedAgain({ ...payment, ...failure, nextAttemptAt: attemptAfter(payment.attempts, at) }, at)
}

/**
 * The facilitator was unreachable, or was down and the chain shows no payment. This does not count as an attempt, and
 * another follows while there is time. `unclear`: the facilitator was asked, so the chain may still change.
 */
export function away(payment: OwedPayment, failure: { error: string; unclear: boolean }, at: Moment): Payment {
  const attempts = payment.attempts - 1
  // Without an earlier attempt the chain has nothing to show.
  const unclear = failure.unclear || (payment.unclear && attempts > 0)
  const nextAttemptAt = at.now + jittered(AWAY_WAIT_MS, at.chance)
  return triedAgain({ ...payment, attempts, error: failure.error, unclear, nextAttemptAt }, at)
}

function triedAgain(failed: OwedPayment & { error: string }, at: Moment): Payment {
  const next = { ...failed, txHash: undefined }
  if (canAttempt(next, { now: next.nextAttemptAt, validBeforeMs: at.validBeforeMs })) return next
  if (at.asksChain === true && (next.unclear || hasAttempts(next))) return postponed(next, at.now)
  return next.unclear ? waiting(next, at) : refused(next, next.error)
}

/** Nothing can be done now, and the chain may show more later. */
export function postponed(payment: OwedPayment, now: UnixMs): OwedPayment {
  return { ...payment, nextAttemptAt: now + RECONCILE_INTERVAL_MS }
}

/** No attempts are left and the chain shows no outcome. After `RECONCILE_LIMIT_MS` the facilitator decides. */
export function waiting(
  payment: OwedPayment,
  at: { now: UnixMs; validBeforeMs: UnixMs },
): OwedPayment | SettledPayment | UnsettledPayment {
  if (at.now > at.validBeforeMs + RECONCILE_LIMIT_MS) {
    if (payment.txHash !== undefined) return settled(payment, payment.txHash, at.now)
    return refused(payment, `outcome unknown, the chain could not be asked: ${payment.error ?? 'no answer'}`)
  }
  return postponed(payment, at.now)
}

export function canAttempt(payment: OwedPayment, at: { now: UnixMs; validBeforeMs: UnixMs }): boolean {
  return hasAttempts(payment) && at.now + SETTLEMENT_MARGIN_SECONDS * 1000 < at.validBeforeMs
}

export function hasAttempts({ attempts }: Pick<OwedPayment, 'attempts'>): boolean {
  return attempts < SETTLEMENT_ATTEMPTS_MAX
}

/** Attempts spread over the window to outlast outages, the last near its end (D40). @internal Exported for its test. */
export function attemptAfter(attempts: number, { now, validBeforeMs, chance }: Moment): UnixMs {
  const lastAt = validBeforeMs - LAST_MS + Math.round(LAST_JITTER_MS * chance)
  if (now >= lastAt) return now + LAST_GAP_MS
  const gap = GAPS_MS[attempts - 1]
  return gap === undefined ? lastAt : Math.min(lastAt, now + jittered(gap, chance))
}

/** Up to 20 % more or less. */
function jittered(ms: number, chance: number): number {
  return Math.round(ms * (0.8 + 0.4 * chance))
}
