import type { RunSlot } from '../../agents/run-slots.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import { Hold } from '../../lib/hold.ts'
import type { Challenge } from '../../payments/challenges.ts'
import { requirementsOf } from '../../payments/requirements.ts'
import { coversRun, DOOR_WINDOW_SECONDS, type VerifiedPayment, verifyPayment } from '../../payments/verify.ts'
import type { Door } from '../../schema/door.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Claim } from '../../store/payments.ts'
import { isRefused } from '../../store/store-error.ts'
import { PeerError } from '../peer-error.ts'
import { admit } from './admit.ts'
import { type RunOutcome, runAgent } from './agent-run.ts'
import {
  asExecutionFailed,
  buyerReason,
  type Caller,
  mayRunElsewhere,
  type PaidResult,
  type PaidRunDeps,
  type ServedAgent,
  storeClaim,
} from './exchange.ts'
import { onChannelsOnly } from './proven-payment.ts'
import { signReceipt } from './receipts.ts'
import { runOverLimit, runTooLate } from './refused-runs.ts'
import { abandon, beginRun, leaveRun, moveOn, storeEnd } from './running.ts'
import { settleFirst } from './settle-first.ts'
import { orUsed, sayingIfUsed, usedAuthorization } from './used-authorization.ts'

export type PaidTask = {
  payment: PaymentEnvelope
  /** What the signature of `payment` proves, if that is known. Undefined: it is checked here. */
  proved?: VerifiedPayment | undefined
  input: string
  /** Undefined for a payment that came without being asked for. */
  challenge: Challenge | undefined
  /** Stored with the claim: see `Claim.awaited`. */
  awaited?: Uint8Array
  /** Undefined: libp2p. */
  door?: Door
  /** Stored with the claim: see `Claim.boundTo`. */
  boundTo?: Uint8Array
  /** Called when the payment is claimed, before the agent runs. */
  onClaimed?(payment: { id: Hex; settlesFirst: boolean }): void
  /** Called after `onClaimed`, if the turn of the run came so late that the payment settles first after all. */
  onLate?(): void
  /** Called before the agent runs, if the payment has settled by then. */
  onSettled?(txHash: Hex): void
}

/**
 * Sells one run: turns a payment into a result, in the only order in which nobody loses (D31).
 *
 * 1. Verify. A payment that fails a check stores and consumes nothing (T4).
 * 2. Admit: a slot for the run (D36), and the unsettled exposure (T6).
 * 3. Claim the authorization and its challenge on disk before the run: one authorization, one run (T5).
 * 4. Run. A failure voids the payment.
 * 5. Record the result and `owed` on disk before anybody learns of them.
 * 6. Settle. The answer waits for that, unless the buyer does not want it to (D46).
 *
 * A payment that has to settle first settles between steps 3 and 4, and step 5 records only the result (D45).
 *
 * @throws PeerError: nobody is charged, except after SETTLEMENT_FAILED, when the buyer can ask for the result
 */
export async function runPaid(
  agent: ServedAgent,
  task: PaidTask,
  caller: Caller,
  deps: PaidRunDeps,
): Promise<PaidResult & { id: Hex }> {
  const verified = verify(agent, task, caller, deps)
  if ('refusal' in verified) throw await sayingIfUsed(verified.refusal, task.payment, deps)
  const { claim } = verified
  if (deps.running.has(claim.id)) throw usedAuthorization()
  // From here to the claim no other message may use this challenge or this authorization. Nothing has been awaited since
  // the challenge was found. The claim refuses both too, if another process takes them.
  using _running = beginRun(claim.id, deps)
  using challenge = task.challenge && deps.challenges.consume(task.challenge)
  faultPoint('seller:verified')

  using slot = await orUsed(() => admit(caller.callerDid, deps), task.payment, deps)
  const verdict = await orUsed(() => checkExposure(agent, claim, caller, deps), task.payment, deps)
  using exposure = new Hold(verdict.counted ? () => deps.exposure.leave(claim.id) : undefined)
  const isAgreed = verdict.kind === 'settle first'
  const { isClaimed, exposed } = await storeClaim(isAgreed ? { ...claim, task: task.input } : claim, deps)
  if (!isClaimed) throw usedAuthorization()
  // A failure from here to the run voids the payment.
  using unrun = new Hold(() => abandon(claim.id, deps))
  challenge?.keep()
  exposure.keep()
  faultPoint('seller:claimed')
  const held = verdict.kind === 'run' ? verdict.held : undefined
  const isOver = exposed !== undefined && (await deps.exposure.isOver(claim, exposed, held))
  const isToSettle = isOver && caller.refusesSettleFirst !== true
  if (isToSettle) await deps.deferred.keepTask(claim.id, task.input)
  const settlesFirst = isAgreed || isToSettle
  task.onClaimed?.({ id: claim.id, settlesFirst })
  const result = await runClaimed(agent, { claim, task, settlesFirst, isOver, slot, unrun }, caller, deps)
  return { id: claim.id, ...result }
}

type ClaimedRun = {
  claim: Claim
  task: PaidTask
  settlesFirst: boolean
  /** More is unsettled than this seller allows. */
  isOver: boolean
  slot: RunSlot
  /** Voids the payment, unless it is kept: its run has not begun. */
  unrun: Hold
}

/** Steps 4 to 6 of a sale. */
async function runClaimed(
  agent: ServedAgent,
  { claim, task, settlesFirst, isOver, slot, unrun }: ClaimedRun,
  caller: Caller,
  deps: PaidRunDeps,
): Promise<PaidResult> {
  let txHash: Hex | undefined
  using left = new Hold(() => txHash && void leaveRun(claim.id, deps))
  if (settlesFirst) txHash = await settleFirst(claim, unrun, caller, deps)
  await slot.turn(agent.id)
  const isLate = txHash === undefined && (isOver || !coversRun(claim.signed, agent.timeoutMs, deps.clock.now()))
  if (isLate && caller.refusesSettleFirst !== true) {
    // The run waited too long: the payment's window no longer covers it. Settle first (D51).
    task.onLate?.()
    await deps.deferred.keepTask(claim.id, task.input)
    txHash = await settleFirst(claim, unrun, caller, deps)
  }
  unrun.keep()
  if (txHash !== undefined) task.onSettled?.(txHash)
  const run = isLate && txHash === undefined ? (isOver ? runOverLimit : runTooLate) : agent.run
  const outcome = await runAgent({ ...agent, run }, { payment: claim, input: task.input }, caller, deps)
  // Storing shares commits, and settlement is slow: neither needs the slot.
  slot.leave()

  const isMoved = txHash === undefined && caller.mayMove === true
  if (isMoved && 'failure' in outcome && mayRunElsewhere(agent, outcome.failure))
    return moveOn(claim.id, outcome.failure, deps)
  const settled = txHash && { ...claim, txHash }
  const result = await (settled ? recordSettled(settled, outcome, deps) : settleAfter(claim, outcome, caller, deps))
  left.keep()
  return result
}

/** Checks everything that needs no waiting. */
function verify(
  agent: ServedAgent,
  task: PaidTask,
  caller: Caller,
  deps: PaidRunDeps,
): { claim: Claim } | { refusal: PeerError } {
  if (agent.isOnChannelsOnly) return { refusal: onChannelsOnly() }
  const requirements = requirementsOf(agent, deps.asset, deps.payTo)
  const isAtDoor = task.door !== undefined && task.door !== 'libp2p'
  const known = { proved: task.proved, ...(isAtDoor && { windowSeconds: DOOR_WINDOW_SECONDS }) }
  const verification = verifyPayment(task.payment, requirements, deps.clock.now(), known)
  if (!verification.ok) return { refusal: new PeerError(verification.error, verification.reason) }
  const { paymentId: id, payer, signed } = verification.payment
  if (deps.isBlocked(payer)) {
    throw new PeerError('PAYMENT_INVALID', 'this seller takes no payments from this account')
  }
  const { peerId, correlationId } = caller
  const challengeNonce = task.challenge?.nonce
  const { awaited, door, boundTo } = task
  const came = { peerId, correlationId, challengeNonce, awaited, door, boundTo }
  return { claim: { id, agentId: agent.id, requirements, signed, ...came } }
}

/** Decides whether the payment settles before or after the run. @throws PeerError PAYMENT_INVALID */
async function checkExposure(agent: ServedAgent, claim: Claim, caller: Caller, deps: PaidRunDeps) {
  const isStreamed = agent.streaming === 'after_settlement' && caller.onOutput !== undefined
  const isCovered = coversRun(claim.signed, agent.timeoutMs, deps.clock.now())
  const settleFirst = deps.settleFirst || isStreamed || !isCovered || (await agent.isAhead?.()) === true
  const verdict = await deps.exposure.enter(claim, caller.signal, { settleFirst })
  if (verdict.kind === 'refuse') throw new PeerError('PAYMENT_INVALID', verdict.reason)
  if (verdict.kind === 'settle first' && caller.refusesSettleFirst === true) {
    const reason =
      'this seller would settle this payment before the run, which its buyer does not allow: nothing was charged'
    throw new PeerError('PAYMENT_INVALID', reason)
  }
  return verdict
}

/** Records a run and settles its payment, or voids the payment of a run that failed. */
async function settleAfter(
  claim: Claim,
  outcome: RunOutcome,
  { awaitsSettlement }: Caller,
  deps: PaidRunDeps,
): Promise<PaidResult> {
  faultPoint('seller:executed')
  const { settler } = deps
  if ('failure' in outcome) {
    const error = buyerReason(outcome.failure)
    await storeEnd(claim.id, () => settler.void(claim.id, error, { ...outcome.exchange, error }), deps)
    faultPoint('seller:voided')
    return asExecutionFailed(outcome.failure)
  }
  const { output, exchange, receiptForm } = outcome
  const receipt = await signReceipt(receiptFacts(claim), { task: exchange.input, result: output }, receiptForm, deps)
  const delivered = { ...exchange, output, receipt }
  const txHash = await storeEnd(claim.id, () => settler.deliver(claim, delivered, { awaitsSettlement }), deps)
  return { output, txHash, receipt }
}

function receiptFacts(paid: Pick<Claim, 'id' | 'agentId' | 'correlationId' | 'requirements' | 'signed'>) {
  const { requirements, signed } = paid
  return { ...paid, network: requirements.network, payer: signed.authorization.from }
}

type Prepayment = Omit<Claim, 'peerId' | 'challengeNonce'> & { txHash: Hex | undefined }

/** Runs work that is already paid. After a failure the next request for the result runs it again. */
export async function runSettled(
  agent: ServedAgent,
  { payment, input }: { payment: Prepayment; input: string },
  caller: Caller,
  deps: PaidRunDeps,
): Promise<PaidResult> {
  return recordSettled(payment, await runAgent(agent, { payment, input }, caller, deps), deps)
}

async function recordSettled(payment: Prepayment, outcome: RunOutcome, deps: PaidRunDeps): Promise<PaidResult> {
  if ('failure' in outcome) {
    await deps.reruns.failed(payment.id)
    return asExecutionFailed(outcome.failure)
  }
  deps.reruns.done(payment.id)
  const { output, exchange, receiptForm } = outcome
  const receipt = await signReceipt(receiptFacts(payment), { task: exchange.input, result: output }, receiptForm, deps)
  try {
    await deps.exchanges.record({ ...exchange, output, receipt })
  } catch (error) {
    if (!isRefused(error)) throw error
    await deps.reruns.failed(payment.id)
    throw new PeerError('EXECUTION_FAILED', 'the ledger of the seller does not take the result of this run', {
      cause: error,
    })
  }
  return { output, txHash: payment.txHash, receipt }
}
