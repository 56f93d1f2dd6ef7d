import { reasonOf } from '../../lib/errors.ts'
import { faultPoint } from '../../lib/fault-point.ts'
import { requirementsOf } from '../../payments/requirements.ts'
import { signatureTurn } from '../../payments/signature-turn.ts'
import type { Hex } from '../../schema/primitives.ts'
import { readHops, type X402ErrorName, type X402Message } from '../../schema/x402.ts'
import { isLedgerAway } from '../../store/store-error.ts'
import { hasPeerLeft } from '../framed-stream.ts'
import { PeerError } from '../peer-error.ts'
import { answerChannelFunds } from './channel-funds.ts'
import { answerChannelCall } from './channel-sale.ts'
import {
  type Exchange,
  type InboundStream,
  refer,
  type ServedAgent,
  willSettleFirst,
  type X402ServerDeps,
} from './exchange.ts'
import { runFree } from './free-run.ts'
import { takeGrowth } from './growing-call.ts'
import { type AnyX402Message, readMessage, readTask, respond, VERSION, writeError, writeMessage } from './messages.ts'
import { wantsOutput, withOutput } from './output.ts'
import { isOnChannel, onChannelsOnly } from './proven-payment.ts'
import { answerReceipt } from './receipts.ts'
import { answerResult, takeUp, takeUpTask } from './result.ts'
import { type PaidTask, runPaid } from './sale.ts'
import { runWrapped } from './wrapped-run.ts'

/** Exchanges in progress on one stream. Beyond it one more message is read, which bounds the work of one stream. */
const EXCHANGES_PER_STREAM_MAX = 16

/**
 * Serves one stream with any number of exchanges. The correlation id identifies an exchange (D23). Each step answers one
 * of client.ts:
 *
 * 1. `requestX402` sends `x402.request`. `answerRequest` sends a challenge in `x402.payment_required`.
 * 2. `sendX402Payment` sends `x402.paid_request`, on this stream or another. `answerPaidRequest` finds the challenge.
 * 3. `sell` runs the sale (sale.ts): verify, admit, claim, run, record, settle.
 * 4. `respond` sends `x402.response`, or `answer` sends `x402.error` for the first step that failed.
 *
 * @param signal aborts when the peer cancels its requests, and when the node stops
 */
export async function serveX402(inbound: InboundStream, deps: X402ServerDeps, signal: AbortSignal): Promise<void> {
  const { stream, peerId } = inbound
  const underWay = new Set<Promise<void>>()
  try {
    const callerDid = deps.didOf(peerId)
    for (;;) {
      const message = await readMessage(stream, signal)
      if (message === undefined) break
      if (message.type === 'x402.voucher') {
        takeGrowth(message.message, peerId, deps.growth.calls)
        continue
      }
      // Only here, so that a voucher for an exchange that waits for one is read.
      if (underWay.size >= EXCHANGES_PER_STREAM_MAX) await Promise.race(underWay)
      const { correlation_id: correlationId } = message.message
      const exchange = { ...inbound, callerDid, correlationId, signal, hops: hopsOf(message), ...wishOf(message) }
      const answered = answer(message, exchange, deps).finally(() => underWay.delete(answered))
      underWay.add(answered)
    }
    await Promise.all(underWay)
    await stream.close()
  } catch (error) {
    // The stream can carry nothing more. A broken message is answered; then both sides start on a new stream.
    await Promise.all(underWay)
    if (!(error instanceof PeerError)) return stream.abort(error as Error)
    await writeError(stream, error, undefined, signal).catch(() => {})
    await stream.close().catch(() => {})
  }
}

/** Answers one message. Never throws: a failure becomes an `x402.error` if the stream can still carry it. */
async function answer(asked: AnyX402Message, exchange: Exchange, deps: X402ServerDeps): Promise<void> {
  const { correlationId, stream, signal } = exchange
  try {
    await answerMessage(asked, exchange, deps)
  } catch (error) {
    if (signal.aborted) return
    if (hasPeerLeft(error)) {
      const fields = { peer_id: exchange.peerId, correlation_id: correlationId, reason: reasonOf(error) }
      return deps.logger.info(fields, 'a peer left before it had its answer')
    }
    if (!(error instanceof PeerError)) {
      deps.logger.error({ err: error, correlation_id: correlationId }, 'an exchange failed')
    }
    await writeError(stream, tellable(error, asked), correlationId, signal).catch((cause: unknown) => {
      deps.logger.debug({ err: cause, correlation_id: correlationId }, 'the peer did not take our answer')
    })
  }
}

/**
 * An error as the peer is told it. A seller that cannot read or write its ledger does not know what became of a payment:
 * it says only that the buyer should ask again.
 */
function tellable(error: unknown, { message }: AnyX402Message): PeerError {
  if (error instanceof PeerError) return error
  if (!isLedgerAway(error)) return new PeerError('EXECUTION_FAILED', 'the seller failed; nobody was charged')
  const reason = 'the seller cannot reach its ledger now'
  const isPaid = 'payment' in message && message.payment !== null
  if (isPaid) return new PeerError('SETTLEMENT_FAILED', `${reason}: send the same payment again later`)
  return new PeerError('OVERLOADED', `${reason}; ask again later`)
}

async function answerMessage({ type, message }: AnyX402Message, plain: Exchange, deps: X402ServerDeps): Promise<void> {
  const isPaid = type === 'x402.paid_request' || (type === 'x402.request' && message.payment !== null)
  using shown = wantsOutput({ type, message } as AnyX402Message) ? withOutput(plain, { isPaid }) : undefined
  const exchange = shown?.exchange ?? plain
  if (!deps.limits.takeRequest(exchange.peerId)) {
    throw new PeerError('OVERLOADED', 'too many requests from this peer; slow down and try again')
  }
  // Wait before the challenge is looked up, because nothing may happen between the lookup and its use.
  // Calls on a channel share one signature in a turn, so they wait for none.
  if (isPaid && !isOnChannelCall({ type, message } as AnyX402Message)) await signatureTurn()
  if (type === 'x402.request') await answerRequest(message, exchange, deps)
  else if (type === 'x402.paid_request') await answerPaidRequest(message, exchange, deps)
  else throw new PeerError('INVALID_MESSAGE', `${type} is not a message for a server`)
}

function isOnChannelCall({ message }: AnyX402Message): boolean {
  return 'payment' in message && message.payment !== null && isOnChannel(message.payment)
}

function hopsOf({ message }: AnyX402Message): number {
  return 'hops' in message ? readHops(message.hops) : 0
}

function wishOf({ message }: AnyX402Message): Pick<Exchange, 'receiptForm'> {
  return 'caller_did' in message && message.receipt === 'merkle' ? { receiptForm: 'merkle' } : {}
}

/** Asks for a payment, unless the agent is free, the payment came along, or the task is paid for already. */
async function answerRequest(request: X402Message<'x402.request'>, exchange: Exchange, deps: X402ServerDeps) {
  noteCaller(request.caller_did, exchange, deps)
  if (request.method === 'result') return answerResult(request, exchange, deps)
  if (request.method === 'receipt') return answerReceipt(request, exchange, deps)
  if (request.method !== 'execute') return answerChannelFunds(request, exchange, deps)
  if (exchange.isDraining?.() && request.payment === null) {
    throw new PeerError(
      'OVERLOADED',
      'this seller stops: nothing was charged, ask it again later or at another address',
    )
  }
  const agent = deps.agents.find(request.resource)
  if (agent === undefined) throw new PeerError('UNKNOWN_RESOURCE', `this node has no agent ${request.resource}`)
  const { payment, body } = request
  const mayRefer = request.may_refer === true && payment === null
  if (agent.amount === 0n) {
    refer(agent, mayRefer)
    return answerFree(agent, body, { ...exchange, mayMove: mayRefer }, deps)
  }
  if (payment === null) {
    if (await takeUpTask(agent, body, exchange, deps)) return
    if (agent.isOnChannelsOnly) throw onChannelsOnly()
    refer(agent, mayRefer)
    return challenge(agent, exchange, request.stream === true, deps)
  }
  if (isOnChannel(payment)) return answerChannelCall(agent, { ...request, payment }, exchange, deps)
  if (payment.server_nonce !== 'preemptive') {
    throw new PeerError('PAYMENT_NONCE_MISMATCH', 'a payment in x402.request must have the server_nonce "preemptive"')
  }
  if (await takeUp({ payment, body, agentId: agent.id }, exchange, deps)) return
  return sell(agent, { ...request, payment, challenge: undefined }, exchange, deps)
}

async function answerPaidRequest(request: X402Message<'x402.paid_request'>, exchange: Exchange, deps: X402ServerDeps) {
  faultPoint('seller:paid-request')
  noteCaller(request.caller_did, exchange, deps)
  const { payment, body } = request
  if (payment.server_nonce === 'preemptive') {
    throw new PeerError('PAYMENT_NONCE_MISMATCH', 'an x402.paid_request must name the nonce of its challenge')
  }
  const asked = { nonce: payment.server_nonce, correlationId: exchange.correlationId, peerId: exchange.peerId }
  let found = deps.challenges.find(asked, deps.clock.now())
  if ('error' in found || found.isFromElsewhere) {
    if (await takeUp({ payment, body }, exchange, deps)) return
    // Another message may have used it meanwhile.
    found = deps.challenges.find(asked, deps.clock.now())
  }
  if ('error' in found) throw await refusedNonce(found.error, payment, deps)
  const agent = deps.agents.find(found.challenge.resource)
  if (agent === undefined) throw new PeerError('UNKNOWN_RESOURCE', 'the seller has removed the agent since')
  return sell(agent, { ...request, payment, challenge: found.challenge }, exchange, deps)
}

type PaidRequest = Omit<PaidTask, 'input'> & {
  body: string
  allow_settle_first?: unknown
  await_settlement?: unknown
  may_move?: unknown
}

async function sell(agent: ServedAgent, request: PaidRequest, asked: Exchange, deps: X402ServerDeps): Promise<void> {
  const { payment, challenge } = request
  const { input, exchange } = readTask(request.body, agent.id, asked)
  const refusesSettleFirst = request.allow_settle_first === false
  const mayMove = request.may_move === true && exchange.isWrapped !== true
  const caller = { ...exchange, refusesSettleFirst, mayMove, awaitsSettlement: request.await_settlement !== false }
  const run = exchange.isWrapped === true ? runWrapped : runPaid
  const result = await run(agent, { payment, input, challenge }, caller, deps)
  await respond({ ...result, tokenId: agent.tokenId }, exchange, deps)
  faultPoint('seller:answered')
}

/** The error for a challenge that is gone: consumed (2004), unknown or another peer's (2002), or expired (2003). */
async function refusedNonce(
  error: X402ErrorName,
  payment: X402Message<'x402.paid_request'>['payment'],
  deps: X402ServerDeps,
): Promise<PeerError> {
  const authorization = payment.payload?.authorization
  const seen =
    error === 'PAYMENT_NONCE_USED' ||
    (await deps.payments.challengeConsumed(payment.server_nonce as Hex)) ||
    (authorization !== undefined &&
      (await deps.payments.authorizationSeen(
        deps.asset.network,
        deps.asset.address,
        authorization.from,
        authorization.nonce,
      )))
  if (seen)
    return new PeerError('PAYMENT_NONCE_USED', 'this challenge or authorization was used before; ask for its result')
  if (error === 'PAYMENT_NONCE_EXPIRED')
    return new PeerError('PAYMENT_NONCE_EXPIRED', 'the challenge has expired; request a new one')
  return new PeerError('PAYMENT_NONCE_MISMATCH', 'no such challenge for this peer and correlation id')
}

async function challenge(
  agent: ServedAgent,
  { stream, peerId, correlationId, signal }: Exchange,
  isStreamed: boolean,
  deps: X402ServerDeps,
) {
  const settlesFirst = await willSettleFirst(agent, { peerId, isStreamed }, deps)
  const issued = deps.challenges.issue({ correlationId, resource: agent.id, peerId }, deps.clock.now())
  await writeMessage(
    stream,
    'x402.payment_required',
    {
      version: VERSION,
      correlation_id: correlationId,
      challenge_nonce: issued.nonce,
      challenge_expires_at: Math.floor(issued.expiresAt / 1000),
      payment_requirements: requirementsOf(agent, deps.asset, deps.payTo, { settlesFirst }),
      message: 'payment required',
      seller_did: deps.sellerDid,
    },
    signal,
  )
}

const NO_PAYMENT = `0x${'0'.repeat(64)}` as const

async function answerFree(agent: ServedAgent, body: string, asked: Exchange, deps: X402ServerDeps): Promise<void> {
  const { input, exchange } = readTask(body, agent.id, asked)
  const output = await runFree(agent, input, exchange, deps)
  const result = { id: NO_PAYMENT, tokenId: agent.tokenId, output, txHash: undefined, receipt: undefined }
  await respond(result, exchange, deps)
}

/** Logs a wrong `caller_did`. Only the DID of the connection's peer counts (D25). */
function noteCaller(named: string, { peerId, callerDid, correlationId }: Exchange, deps: X402ServerDeps): void {
  if (named !== callerDid) {
    deps.logger.debug(
      { correlation_id: correlationId, peer_id: peerId, caller_did: named },
      'caller_did is not the peer’s',
    )
  }
}
