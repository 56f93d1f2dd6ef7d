import { faultPoint } from '../../lib/fault-point.ts'
import type { Challenge } from '../../payments/challenges.ts'
import { requirementsOf } from '../../payments/requirements.ts'
import { type VerifiedPayment, verifyPayment } from '../../payments/verify.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { NewExchange } from '../../store/exchanges.ts'
import type { Claim, StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import {
  asExecutionFailed,
  buyerReason,
  decodeTask,
  type Exchange,
  type ServedAgent,
  type X402ServerDeps,
} from './exchange.ts'
import { VERSION, writeMessage } from './messages.ts'

export type PaidTask = { payment: PaymentEnvelope; body: string; challenge: Challenge | undefined }

/**
 * Turns a payment into a result, in the one order in which nobody loses (D31).
 *
 * 1. verify: nothing is stored or consumed for a payment that fails a check (T4)
 * 2. claim the authorization and its challenge, on disk, before anything runs: one authorization, one run (T5)
 * 3. run; a failure voids the payment
 * 4. store the result and `owed`, on disk, before anyone is told
 * 5. settle, then answer
 */
export async function payAndRun(
  agent: ServedAgent,
  task: PaidTask,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  const input = decodeTask(task.body)
  const verified = verify(agent, task.payment, deps)
  if (deps.running.has(verified.paymentId)) throw nonceUsed()
  // From here to the claim no other message may use this challenge; the store refuses a second authorization anyway.
  if (task.challenge !== undefined) deps.challenges.consume(task.challenge)
  const claim: Claim = {
    id: verified.paymentId,
    agentId: agent.id,
    peerId: exchange.peerId,
    correlationId: exchange.correlationId,
    challengeNonce: task.challenge?.nonce,
    requirements: requirementsOf(agent, deps.asset, deps.payTo),
    signed: verified.signed,
    ...(deps.settleFirst ? { task: input } : {}),
  }
  faultPoint('seller:verified')
  const run = deps.inSlot(async () => {
    if (!(await deps.settler.claim(claim))) {
      throw nonceUsed()
    }
    faultPoint('seller:claimed')
    return deps.settleFirst
      ? settleThenRun(agent, claim, input, exchange, deps)
      : runThenSettle(agent, claim, input, exchange, deps)
  })
  const answered = track(claim.id, run, deps).catch((error: unknown) => {
    if (refusedBeforeClaim(error) && task.challenge !== undefined) deps.challenges.restore(task.challenge)
    throw error
  })
  const { output, txHash } = await answered
  await respond(agent.tokenId, { id: claim.id, output, txHash }, exchange, deps)
  faultPoint('seller:answered')
}

export type Delivered = { output: string; txHash: Hex | undefined }

async function runThenSettle(
  agent: ServedAgent,
  claim: Claim,
  input: string,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<Delivered> {
  const outcome = await runAgent(agent, claim, input, exchange, deps)
  faultPoint('seller:executed')
  if ('failure' in outcome) {
    const error = buyerReason(outcome.failure)
    await deps.settler.void(claim.id, error, { ...outcome.exchange, error })
    faultPoint('seller:voided')
    return asExecutionFailed(outcome.failure)
  }
  const txHash = await deps.settler.deliver(claim, { ...outcome.exchange, output: outcome.output })
  return { output: outcome.output, txHash }
}

async function settleThenRun(
  agent: ServedAgent,
  claim: Claim,
  input: string,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<Delivered> {
  const txHash = await deps.settler.settleFirst(claim)
  faultPoint('seller:settled-first')
  if (txHash === undefined) {
    throw new PeerError(
      'SETTLEMENT_FAILED',
      'this seller settles first, and settlement is not done; ask for the result later',
    )
  }
  return runSettled(agent, { ...claim, txHash }, input, exchange, deps)
}

/** Runs what is paid for already. A failure is told and kept, and the next request for the result runs it again. */
export async function runSettled(
  agent: ServedAgent,
  payment: Pick<StoredPayment, 'id' | 'correlationId' | 'txHash'>,
  input: string,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<Delivered> {
  const outcome = await runAgent(agent, payment, input, exchange, deps)
  if ('failure' in outcome) return asExecutionFailed(outcome.failure)
  await deps.exchanges.record({ ...outcome.exchange, output: outcome.output })
  return { output: outcome.output, txHash: payment.txHash }
}

type Outcome = { exchange: NewExchange } & ({ output: string } | { failure: unknown })

async function runAgent(
  agent: ServedAgent,
  payment: Pick<Claim, 'id' | 'correlationId'>,
  input: string,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<Outcome> {
  const started = deps.clock.now()
  const callerId = deps.didOf(exchange.peerId)
  const record = (): NewExchange => ({
    agentId: agent.id,
    callerId,
    correlationId: payment.correlationId,
    input,
    paymentId: payment.id,
    createdAt: started,
    durationMs: deps.clock.now() - started,
  })
  try {
    const output = await agent.run({ input, callerId, signal: exchange.signal })
    return { output, exchange: record() }
  } catch (failure) {
    deps.logger.warn(
      { err: failure, payment_id: payment.id, correlation_id: payment.correlationId },
      'a paid run failed',
    )
    return { failure, exchange: record() }
  }
}

function verify(agent: ServedAgent, payment: PaymentEnvelope, deps: X402ServerDeps): VerifiedPayment {
  const authorization = payment.payload?.authorization
  const { network, address } = deps.asset
  if (
    authorization !== undefined &&
    deps.payments.authorizationSeen(network, address, authorization.from, authorization.nonce)
  ) {
    throw nonceUsed()
  }
  const verification = verifyPayment(payment, requirementsOf(agent, deps.asset, deps.payTo), deps.clock.now())
  if (!verification.ok) throw new PeerError(verification.error, verification.reason)
  return verification.payment
}

export async function respond(
  tokenId: string,
  paid: { id: Hex } & Delivered,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  await writeMessage(
    exchange.stream,
    'x402.response',
    {
      version: VERSION,
      correlation_id: exchange.correlationId,
      payment_id: paid.id,
      tx_hash: paid.txHash ?? '',
      body: Buffer.from(paid.output).toString('base64'),
      seller_did: deps.sellerDid,
      seller_token_id: tokenId,
    },
    exchange.signal,
  )
}

export function track<T>(id: Hex, work: Promise<T>, deps: X402ServerDeps): Promise<T> {
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

function refusedBeforeClaim(error: unknown): boolean {
  return error instanceof PeerError && (error.code === 'OVERLOADED' || error.code === 'PAYMENT_NONCE_USED')
}
