import type { Place } from '../../agents/run-slots.ts'
import { AgentError } from '../../agents/runtime.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import type { Challenge } from '../../payments/challenges.ts'
import { requirementsOf } from '../../payments/requirements.ts'
import { coversRun, type VerifiedPayment, verifyPayment } from '../../payments/verify.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { NewExchange } from '../../store/exchanges.ts'
import type { Claim, StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import {
  asExecutionFailed,
  buyerReason,
  type Caller,
  type Exchange,
  type PaidRunDeps,
  readTask,
  runCall,
  type ServedAgent,
  type X402ServerDeps,
} from './exchange.ts'
import { issueReceipt } from './issue-receipt.ts'
import { type Delivered, respond } from './respond.ts'
import { type OnClaimed, runWrapped } from './wrapped-run.ts'

type PaidTask = { payment: PaymentEnvelope; body: string; challenge: Challenge | undefined }

/** Runs a paid task and answers on its stream. */
export async function payAndRun(
  agent: ServedAgent,
  { payment, body, challenge }: PaidTask,
  asked: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  const { input, exchange } = readTask(body, agent.id, asked)
  const run = (onClaimed: OnClaimed) => runPaid(agent, { payment, input, challenge, onClaimed }, exchange, deps)
  const paid = await runWrapped({ agentId: agent.id, input }, exchange, deps, run)
  await respond(agent.tokenId, paid, exchange, deps)
  faultPoint('seller:answered')
}

/**
 * Turns a payment into a result, in the only order in which nobody loses (D31).
 *
 * 1. Verify. A payment that fails a check stores and consumes nothing (T4). Check the unsettled exposure (T6).
 * 2. Claim the authorization and its challenge on disk before the run: one authorization, one run (T5).
 * 3. Run. A failure voids the payment.
 * 4. Store the result and `owed` on disk before anybody learns of them.
 * 5. Settle.
 *
 * @throws PeerError: nobody is charged, except after SETTLEMENT_FAILED, when the buyer can ask for the result
 */
export async function runPaid(
  agent: ServedAgent,
  task: {
    payment: PaymentEnvelope
    input: string
    challenge: Challenge | undefined
    /** Called when the payment is accepted, before the agent runs. */
    onClaimed?(payment: { id: Hex; payer: Hex; settlesFirst: boolean }): void
  },
  caller: Caller,
  deps: PaidRunDeps,
): Promise<{ id: Hex } & Delivered> {
  const { input, challenge } = task
  const verified = verify(agent, task.payment, deps)
  if (deps.exposure.isBlocked(verified.payer)) {
    throw new PeerError('PAYMENT_INVALID', 'this seller takes no payments from this account')
  }
  // Check before asking the chain, which shows payments that this node settled as spent.
  if (deps.running.has(verified.paymentId) || isSeen(verified.signed.authorization, deps)) throw nonceUsed()
  // From here to the claim no other message may use this challenge. The store would also refuse a second authorization.
  if (challenge !== undefined) deps.challenges.consume(challenge)
  const claim: Claim = {
    id: verified.paymentId,
    agentId: agent.id,
    peerId: caller.peerId,
    correlationId: caller.correlationId,
    challengeNonce: challenge?.nonce,
    requirements: requirementsOf(agent, deps.asset, deps.payTo),
    signed: verified.signed,
  }
  faultPoint('seller:verified')
  let claimed = false
  let counted = false
  const run = deps.admit(caller.callerDid, async (place) => {
    const isStreamed = agent.streaming === 'after_settlement' && caller.onOutput !== undefined
    const isCovered = coversRun(claim.signed, agent.timeoutMs, deps.clock.now())
    const settleFirst = deps.settleFirst || agent.settlesFirst === true || isStreamed || !isCovered
    const verdict = await deps.exposure.enter(claim, caller.signal, { settleFirst })
    if (verdict.kind === 'refuse') throw new PeerError('PAYMENT_INVALID', verdict.reason)
    counted = verdict.counted
    const settlesFirst = verdict.kind === 'settle first'
    if (settlesFirst && caller.refusesSettleFirst === true) {
      const reason = 'this seller would settle this payment first, which its buyer does not allow: nothing was charged'
      throw new PeerError('PAYMENT_INVALID', reason)
    }
    if (!(await deps.settler.claim(settlesFirst ? { ...claim, task: input } : claim))) throw nonceUsed()
    claimed = true
    faultPoint('seller:claimed')
    task.onClaimed?.({ id: claim.id, payer: verified.payer, settlesFirst })
    return settlesFirst
      ? settleThenRun(agent, claim, input, caller, place, deps)
      : runThenSettle(agent, claim, input, caller, place, deps)
  })
  const answered = track(claim.id, run, deps).catch((error: unknown) => {
    // If the payment was not claimed, for any reason, the buyer may send it again (T4).
    if (!claimed && challenge !== undefined) deps.challenges.restore(challenge)
    if (!claimed && counted) deps.exposure.leave(claim.id)
    throw error
  })
  return { id: claim.id, ...(await answered) }
}

async function runThenSettle(
  agent: ServedAgent,
  claim: Claim,
  input: string,
  caller: Caller,
  place: Place,
  deps: PaidRunDeps,
): Promise<Delivered> {
  const outcome = await inTurn(place, async () => {
    if (coversRun(claim.signed, agent.timeoutMs, deps.clock.now())) return runAgent(agent, claim, input, caller, deps)
    // The run waited too long: the payment's window no longer covers it. Settle first (D51) if the buyer allows it.
    if (caller.refusesSettleFirst === true) return runAgent({ ...agent, run: tooLate }, claim, input, caller, deps)
    await deps.deferred.keepTask(claim.id, input)
    const txHash = await settledFirst(claim, deps)
    return { delivered: await runSettled(agent, { ...claim, txHash }, input, caller, deps) }
  })
  if ('delivered' in outcome) return outcome.delivered
  faultPoint('seller:executed')
  if ('failure' in outcome) {
    const error = buyerReason(outcome.failure)
    await deps.settler.void(claim.id, error, { ...outcome.exchange, error })
    faultPoint('seller:voided')
    return asExecutionFailed(outcome.failure)
  }
  const { output } = outcome
  const receipt = issueReceipt(claim, input, output, deps)
  const txHash = await deps.settler.deliver(claim, { ...outcome.exchange, output, receipt })
  return { output, txHash, receipt }
}

/** Replaces a run that could not be settled afterwards, for a buyer that refuses settlement before the run (D45). */
async function tooLate(): Promise<never> {
  const reason = 'its turn came too late to settle its payment after the run, and its buyer allows no settling first'
  throw new PeerError('EXECUTION_FAILED', `${reason}: nothing was charged`, { retryable: true })
}

async function settleThenRun(
  agent: ServedAgent,
  claim: Claim,
  input: string,
  caller: Caller,
  place: Place,
  deps: PaidRunDeps,
): Promise<Delivered> {
  const txHash = await settledFirst(claim, deps)
  return inTurn(place, () => runSettled(agent, { ...claim, txHash }, input, caller, deps))
}

/** @throws PeerError SETTLEMENT_FAILED if the payment is not settled in time */
async function settledFirst(claim: Claim, deps: PaidRunDeps): Promise<Hex> {
  const txHash = await deps.settler.settleFirst(claim)
  faultPoint('seller:settled-first')
  if (txHash !== undefined) return txHash
  // Store this before the buyer learns of it. If the payment settles later, its work is run, and the buyer may send the
  // same payment again (D39).
  await deps.deferred.defer(claim.id)
  const reason = 'this seller settles first, and settlement is not done: send the same payment again later'
  throw new PeerError('SETTLEMENT_FAILED', reason)
}

/** Holds a slot only during the run. Storing before and after it shares commits, and settlement is slow. */
async function inTurn<T>(place: Place, run: () => Promise<T>): Promise<T> {
  await place.turn()
  try {
    return await run()
  } finally {
    place.leave()
  }
}

/**
 * Runs work that is already paid. A failure is reported and recorded. The next request for the result runs it again.
 */
export async function runSettled(
  agent: ServedAgent,
  payment: Pick<StoredPayment, 'id' | 'agentId' | 'correlationId' | 'signed' | 'requirements' | 'txHash'>,
  input: string,
  caller: Caller,
  deps: PaidRunDeps,
): Promise<Delivered> {
  const outcome = await runAgent(agent, payment, input, caller, deps)
  if ('failure' in outcome) {
    deps.reruns.failed(payment.id)
    return asExecutionFailed(outcome.failure)
  }
  deps.reruns.done(payment.id)
  const { output } = outcome
  const receipt = issueReceipt(payment, input, output, deps)
  await deps.exchanges.record({ ...outcome.exchange, output, receipt })
  return { output, txHash: payment.txHash, receipt }
}

type Outcome = { exchange: NewExchange } & ({ output: string } | { failure: unknown })

async function runAgent(
  agent: ServedAgent,
  payment: Pick<Claim, 'id' | 'correlationId'>,
  input: string,
  caller: Caller,
  deps: PaidRunDeps,
): Promise<Outcome> {
  const started = deps.clock.now()
  const record = (): NewExchange => ({
    agentId: agent.id,
    callerId: caller.callerDid,
    correlationId: payment.correlationId,
    input,
    paymentId: payment.id,
    createdAt: started,
    durationMs: deps.clock.now() - started,
  })
  let shown = ''
  const show = (text: string) => {
    shown += text
    caller.onOutput?.(text)
  }
  const isShown = caller.onOutput !== undefined && agent.streaming !== 'off'
  try {
    const call = runCall(caller, input, { id: payment.id, isPaid: true })
    const output = await agent.run({ ...call, ...(isShown && { onOutput: show }) })
    deps.logger.debug({ payment_id: payment.id, correlation_id: payment.correlationId }, 'a paid run is done')
    return { output, exchange: record() }
  } catch (failure) {
    if (shown !== '' && isLimit(failure)) {
      deps.logger.info(
        { err: failure, payment_id: payment.id },
        'a limit ended a paid run: what was shown is its result',
      )
      return { output: shown, exchange: record() }
    }
    deps.logger.warn(
      { err: failure, payment_id: payment.id, correlation_id: payment.correlationId },
      'a paid run failed',
    )
    return { failure, exchange: record() }
  }
}

/**
 * True for a limit that a task can push an agent over. The output shown until then is delivered, and the buyer owes for
 * it (T6).
 */
function isLimit(failure: unknown): boolean {
  return (
    failure instanceof AgentError && (failure.code === 'AGENT_TIMEOUT' || failure.code === 'AGENT_OUTPUT_TOO_LARGE')
  )
}

function verify(agent: ServedAgent, payment: PaymentEnvelope, deps: PaidRunDeps): VerifiedPayment {
  const verification = verifyPayment(payment, requirementsOf(agent, deps.asset, deps.payTo), deps.clock.now())
  // The claim decides whether a valid authorization was used before.
  if (verification.ok) return verification.payment
  // A used authorization is reported before anything else that is wrong with it (D27).
  const authorization = payment.payload?.authorization
  if (authorization !== undefined && isSeen(authorization, deps)) throw nonceUsed()
  throw new PeerError(verification.error, verification.reason)
}

function isSeen({ from, nonce }: { from: string; nonce: string }, { asset, payments }: PaidRunDeps): boolean {
  return payments.authorizationSeen(asset.network, asset.address, from, nonce)
}

export function track<T>(id: Hex, work: Promise<T>, deps: Pick<X402ServerDeps, 'running'>): Promise<T> {
  deps.running.set(id, work)
  const done = () => {
    if (deps.running.get(id) === work) deps.running.delete(id)
  }
  work.then(done, done)
  return work
}

function nonceUsed(): PeerError {
  return new PeerError('PAYMENT_NONCE_USED', 'this authorization was used before; ask for its result')
}
