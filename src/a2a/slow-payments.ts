import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import { proveSigner } from '../payments/verify.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { Caller, PaidResult, PaidRunDeps } from '../protocols/x402/exchange.ts'
import { resultOf } from '../protocols/x402/result.ts'
import { runEnd } from '../protocols/x402/running.ts'
import { usedAuthorization } from '../protocols/x402/used-authorization.ts'
import type { PaymentEnvelope } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { StoredPayment } from '../store/payments.ts'
import { isLedgerAway } from '../store/store-error.ts'

/** Pause between two checks of a settlement that a result waits for (`--settle-first`). */
const SETTLEMENT_LOOK_MS = 2_000
/** Pauses between checks after a run, when the first attempt at settlement has just ended. */
const DECIDED_PAUSE = { firstMs: 25, mostMs: SETTLEMENT_LOOK_MS }
/** Runs of an agent that was paid in advance. After that the operator must act. */
const SETTLED_RUNS_MAX = 3

/**
 * `--settle-first`: waits for a slow chain and retries a failed run, up to a maximum.
 *
 * @throws WorkOwed if the payment is settled and no run has a result; PeerError if nothing is charged
 */
export async function whenSettled(
  paymentId: Hex,
  first: unknown,
  caller: Caller,
  deps: PaidRunDeps,
): Promise<PaidResult> {
  let error = first
  for (let tries = 0; tries < SETTLED_RUNS_MAX; ) {
    if (error instanceof PeerError && error.code === 'EXECUTION_FAILED') tries++
    else if (!mayPass(error)) throw error
    await pause(SETTLEMENT_LOOK_MS, caller.signal)
    caller.signal.throwIfAborted()
    try {
      return await resultOf((await deps.payments.get(paymentId))!, caller, deps)
    } catch (cause) {
      error = cause
    }
    // Its settlement was never begun, because the ledger was away then.
    if (error instanceof PeerError && (await isVoid(paymentId, deps))) throw error
  }
  throw new WorkOwed((await deps.payments.get(paymentId))!)
}

async function isVoid(paymentId: Hex, { payments }: Pick<PaidRunDeps, 'payments'>): Promise<boolean> {
  const stored = await payments.get(paymentId).catch(() => undefined)
  return stored?.state === 'voided'
}

/** A payment that is settled, and whose agent gave no result in the runs that it gets here. */
export class WorkOwed extends Error {
  readonly payment: StoredPayment

  constructor(payment: StoredPayment) {
    super(`payment ${payment.id} is settled, and the agent gave no result in ${SETTLED_RUNS_MAX} runs`)
    this.payment = payment
  }
}

/**
 * Waits for a ledger that is away to say what became of the payment. The run may have been done, and its payment settles when
 * the ledger is back: a task that had failed meanwhile would be paid for again.
 *
 * @throws PeerError OVERLOADED if nothing of the payment is stored
 */
export async function whenKnown(
  payment: PaymentEnvelope,
  first: unknown,
  caller: Caller,
  deps: PaidRunDeps,
): Promise<PaidResult> {
  const proof = proveSigner(payment, deps.asset)
  if (!proof.ok) throw first
  const { paymentId } = proof.payment
  for (;;) {
    await pause(SETTLEMENT_LOOK_MS, caller.signal)
    caller.signal.throwIfAborted()
    try {
      await runEnd(paymentId, deps)
      const stored = await deps.payments.get(paymentId)
      if (stored === undefined) throw new PeerError('OVERLOADED', 'the ledger of this seller was away')
      // The chain shows the payments of others to anybody.
      const isOfTask = stored.peerId === caller.peerId && stored.correlationId === caller.correlationId
      if (!isOfTask) throw usedAuthorization()
      return await resultOf(stored, caller, deps)
    } catch (error) {
      if (!isLedgerAway(error)) throw error
    }
  }
}

/**
 * Keeps a result back until its payment has settled (T6): the account may have been emptied while the agent worked, and a
 * stranger has as many accounts as it likes.
 *
 * @throws PeerError SETTLEMENT_FAILED if it will not settle, or the node stops before
 */
export async function whenPaid<Result extends PaidResult>(
  paymentId: Hex,
  result: Result,
  { signal }: Pick<Caller, 'signal'>,
  { payments }: Pick<PaidRunDeps, 'payments'>,
): Promise<Result> {
  for (let looks = 1; ; looks++) {
    const stored = await payments.get(paymentId).catch((error: unknown) => {
      if (!isLedgerAway(error)) throw error
    })
    if (stored?.txHash !== undefined) return { ...result, txHash: stored.txHash }
    if (stored?.state === 'unsettled') throw notSettled(stored.error)
    if (!(await pause(doubledMs(looks, DECIDED_PAUSE), signal))) {
      throw new PeerError(
        'SETTLEMENT_FAILED',
        'this node stops, and the payment is not settled yet: ask for the task later',
      )
    }
  }
}

function notSettled(why = 'no reason known'): PeerError {
  const reason = `the payment could not be settled (${why}): the result is kept back, nothing was charged`
  return new PeerError('SETTLEMENT_FAILED', reason, { retryable: false })
}

/**
 * True if the payment is not settled yet, no slot is free, or the ledger is away. The task is paid, so no new payment is
 * requested.
 */
function mayPass(error: unknown): boolean {
  if (!(error instanceof PeerError)) return isLedgerAway(error)
  return error.code === 'OVERLOADED' || (error.code === 'SETTLEMENT_FAILED' && error.retryable)
}
