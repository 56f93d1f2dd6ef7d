import { createTurns } from '../../lib/turns.ts'
import { proveSigner } from '../../payments/verify.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { X402Message } from '../../schema/x402.ts'
import type { StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import { type Caller, type Exchange, type PaidRunDeps, readTask, type X402ServerDeps } from './exchange.ts'
import { runSettled, track } from './paid-run.ts'
import { type Delivered, respond } from './respond.ts'

/**
 * Answers `method: "result"`: the result that this payment bought, for the peer that paid (D32).
 *
 * The signature proves the payment, and the connection proves the peer. Nothing is claimed or charged. Only work that
 * was settled first and never finished is run. If the run is in progress, the answer waits for it.
 */
export async function answerResult(
  request: Pick<X402Message<'x402.request'>, 'payment' | 'resource' | 'body'>,
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  const { exchange } = readTask(request.body, request.resource, asked)
  if (request.payment === null) {
    throw new PeerError('PAYMENT_REQUIRED', 'to ask for a result, send the payment that bought it')
  }
  const proof = proveSigner(request.payment, deps.asset)
  if (!proof.ok) throw new PeerError(proof.error, proof.reason)
  const { paymentId } = proof.payment
  // `answerBought` waits too, but a payment in progress may not be stored yet.
  await untilRun(paymentId, deps)
  const stored = deps.payments.get(paymentId)
  if (stored === undefined) {
    throw new PeerError('PAYMENT_REQUIRED', 'this payment was never accepted here; it can still be used to pay')
  }
  if (stored.peerId !== exchange.peerId || stored.agentId !== request.resource) {
    throw new PeerError('PAYMENT_INVALID', 'this payment was made by another peer or for another agent')
  }
  await answerBought(stored, exchange, deps)
}

/** Reads, encodes and sends one stored result per turn of the event loop. A result may be megabytes (T32). */
const resultTurn = createTurns(1)

/** Answers with what a payment has bought. @throws PeerError while there is no result */
export async function answerBought(stored: StoredPayment, exchange: Exchange, deps: X402ServerDeps): Promise<void> {
  const answerWith = (delivered: Delivered) =>
    respond(deps.tokenOf(stored.agentId) ?? '', { id: stored.id, ...delivered }, exchange, deps)
  await untilRun(stored.id, deps)
  const isAnswered = await deps.limits.oneByOne(exchange.peerId, async () => {
    await resultTurn()
    exchange.signal.throwIfAborted()
    const kept = keptResult(deps.payments.get(stored.id) ?? stored, deps)
    if (kept !== undefined) await answerWith(kept)
    return kept !== undefined
  })
  if (!isAnswered) await answerWith(await deliveredBy(stored, exchange, deps))
  if (stored.task !== undefined || deps.deferred.was(stored.id)) await deps.deferred.taken(stored.id)
}

/** Resolves when nothing runs for this payment. */
async function untilRun(id: Hex, { running }: Pick<PaidRunDeps, 'running'>): Promise<void> {
  for (let run = running.get(id); run !== undefined; run = running.get(id)) await run.catch(() => {})
}

function keptResult(payment: StoredPayment, deps: Pick<PaidRunDeps, 'exchanges' | 'settler'>): Delivered | undefined {
  const output = deps.exchanges.paidOutput(payment.id)
  if (output === undefined) return undefined
  // The hash in the response may not be on disk yet.
  const txHash = payment.txHash ?? deps.settler.namedFor(payment.id)
  return { output, txHash, receipt: payment.receipt }
}

/**
 * What a payment has bought. A payment that was settled before its run, and whose run never finished, is run now.
 * @throws PeerError
 */
export async function deliveredBy(
  stored: StoredPayment,
  caller: Caller,
  deps: PaidRunDeps & Pick<X402ServerDeps, 'findAgent'>,
): Promise<Delivered> {
  // Nothing may happen between the last check and the run that follows from it, so only this loop may `await`.
  for (let run = deps.running.get(stored.id); run !== undefined; run = deps.running.get(stored.id)) {
    await run.catch(() => {})
  }
  const payment = deps.payments.get(stored.id) ?? stored
  const kept = keptResult(payment, deps)
  if (kept !== undefined) return kept
  if (payment.state === 'voided') {
    const reason = payment.error ?? 'the agent failed'
    throw new PeerError('EXECUTION_FAILED', `${reason}; the payment was voided, nothing is charged`)
  }
  if (payment.state === 'authorized') {
    throw new PeerError('EXECUTION_FAILED', 'the seller could not store the result; nobody is charged')
  }
  if (payment.refundTx !== undefined) {
    const error = new PeerError('EXECUTION_FAILED', `the seller has paid this payment back, in ${payment.refundTx}`)
    error.refundTx = payment.refundTx
    throw error
  }
  const { task } = payment
  // Work that ran is not run again for the same payment, no matter how late the buyer asks (T5).
  if (task === undefined || payment.ran) throw new PeerError('UNKNOWN_RESOURCE', 'the result is no longer kept')
  if (payment.state === 'unsettled') {
    const reason = `the payment could not be settled (${payment.error ?? 'no reason known'}), so nothing ran`
    throw new PeerError('SETTLEMENT_FAILED', reason, { retryable: false })
  }
  if (payment.state !== 'settled') {
    throw new PeerError('SETTLEMENT_FAILED', 'the payment is not settled yet; ask for the result later')
  }
  // The refund was sent but not yet seen in a block. Delivering now could give the work for nothing (T6).
  if (deps.payments.isBeingPaidBack(payment.id)) {
    throw new PeerError('SETTLEMENT_FAILED', 'the seller is paying this payment back; ask again later')
  }
  const waitMs = deps.reruns.waitMs(payment.id)
  if (waitMs > 0) {
    const reason = `the runs of this payment have failed; it may run again in ${Math.ceil(waitMs / 1000)} s`
    throw new PeerError('OVERLOADED', `${reason}: ask for the result then`)
  }
  const agent = deps.findAgent(payment.agentId)
  if (agent === undefined)
    throw new PeerError('UNKNOWN_RESOURCE', 'the agent was removed; ask the seller to bring it back')
  return track(
    payment.id,
    deps.inSlot(caller.callerDid, () => runSettled(agent, payment, task, caller, deps)),
    deps,
  )
}
