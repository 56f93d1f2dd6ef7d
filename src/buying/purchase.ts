import { faultPoint } from '../lib/fault-point.ts'
import type { Logger } from '../lib/logger.ts'
import { signatureTurn } from '../payments/signature-turn.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPool } from '../protocols/streams.ts'
import type { ReceivedResponse } from '../protocols/x402/answers.ts'
import {
  type BodyForm,
  type Call,
  callX402Preemptively,
  type ExchangeStream,
  type PaymentDemand,
  requestX402,
  sendX402Payment,
} from '../protocols/x402/client.ts'
import { type AnswerLimits, FIRST_ANSWER_MS, SHOWN_WORK_MS } from '../protocols/x402/first-answer.ts'
import { asksForWrapped, fitsWrapped } from '../protocols/x402/wrapped-body.ts'
import type { PaymentEnvelope } from '../schema/payment.ts'
import type { Order } from '../store/purchases.ts'
import { askUntilKnown, sendElsewhere } from './ask-again.ts'
import { leftOfToken, refusalOf } from './budget.ts'
import { type BoughtOnChannel, buyOnChannel } from './channels/buy-on-channel.ts'
import type { ChannelLine } from './channels/channel-line.ts'
import { payOnNeeded } from './channels/channel-only.ts'
import type { Channels } from './channels/channels.ts'
import { payOrWait } from './channels/pay-or-wait.ts'
import { Deadline, ResultOverdue } from './deadline.ts'
import type { Watch } from './flights.ts'
import { channelPrice, Guard, type GuardDeps, type Terms } from './guard.ts'
import { outcomeOf } from './outcome.ts'
import { type Ask, FIRST_ASK, isReferral, nextAsk } from './processes-asked.ts'
import { type PurchaseResult, received, receivedOnChannel } from './received.ts'
import type { SendGate } from './send-gate.ts'
import { StreamLease } from './stream-lease.ts'

/** Challenges that a seller may let expire before the purchase fails. */
const CHALLENGES_MAX = 3
/** How long a caller waits after the payment window ends. Then the recovery asks the chain. */
const AFTER_WINDOW_MS = 30_000

/** An order that executes. `price` is the highest price that may be paid now. */
export type RunnableOrder = Order & { task: string; correlationId: string }

export type PurchaseDeps = GuardDeps & {
  logger: Logger
  streams: StreamPool
  callerDid: string
  /** Default: a payment never waits. */
  sendGate?: SendGate | undefined
  /** Time for a seller to name its price, in ms. `shownWorkMs` applies to a seller that shows output first. */
  firstAnswerMs?: number
  shownWorkMs?: number
  /** How long to wait for the answer after the payment window ends, in ms. */
  afterWindowMs?: number
  /** Payment channels of this node. Undefined: each call is paid for by itself. */
  channels?: Pick<Channels, 'lineFor' | 'isAwaited' | 'obstacle' | 'failure' | 'aheadOf'> | undefined
  /** True if results of this node's purchases wait for their settlement. Default: false (D46). */
  awaitsSettlement?: boolean | undefined
}

type Callers = {
  watch?: Watch | undefined
  /** Called right before the signature. From there on the purchase runs to its end. */
  onSigning?(): void
  /** True if the caller wants the transaction with the result. Default: the option of this node. */
  awaitsSettlement?: boolean | undefined
}

type Purchase = {
  order: RunnableOrder
  terms: Terms
  call: Call & { form: BodyForm }
  guard: Guard
  deadline: Deadline
} & Callers

/**
 * Buys one run of a paid agent. The mirror of the seller's `runPaid`.
 *
 * 1. Borrow a stream to the seller.
 * 2. Ask. The seller sends its requirements and a challenge.
 * 3. Guard and sign. Sign nothing unless the requirements equal the listing and fit order and budget (D33). Store the
 *    reservation before the signature leaves, so that every possible charge is on record.
 * 4. Send the payment and take the result.
 * 5. In doubt, ask again with the same authorization, never with a second one (D32).
 * 6. Check the receipt.
 *
 * @throws MarketError; PeerError if the seller answers with an error. A signed reservation stays open until it is
 * resolved.
 */
export async function purchase(
  order: RunnableOrder,
  { terms, ...callers }: { terms: Terms } & Callers,
  deps: PurchaseDeps,
  caller: AbortSignal,
): Promise<PurchaseResult> {
  using deadline = new Deadline(caller)
  const guard = new Guard(order, terms, deps)
  const { awaitsSettlement = deps.awaitsSettlement ?? false } = callers
  const call = { ...callOf(order, terms, deps), awaitsSettlement }
  const bought: Purchase = { order, terms, call, guard, deadline, ...callers }
  const onChannel = await payOnChannel(bought, deps)
  if (onChannel !== undefined) {
    faultPoint('buyer:answered')
    return receivedOnChannel(onChannel, bought, deps.logger)
  }
  let response: ReceivedResponse
  try {
    response = await payOverStream(bought, deps)
  } catch (error) {
    const { reservation } = guard
    if (reservation === undefined || outcomeOf(error, 'payment') === 'last word') throw error
    const ids = { order_id: order.id, correlation_id: order.correlationId }
    deps.logger.warn({ ...ids, err: error }, 'a paid call was interrupted; asking the seller for its result')
    const signed = { reservation, call: bought.call, seller: terms.seller }
    response = await askUntilKnown(signed, deps, deadline.signal)
  }
  faultPoint('buyer:answered')
  return received(response, { ...bought, reservation: guard.reservation }, deps.logger)
}

/** Pays a call by a channel, if one pays it. Money is locked only for calls that this node would pay. */
async function payOnChannel(bought: Purchase, deps: PurchaseDeps): Promise<BoughtOnChannel | undefined> {
  const { order, terms, deadline } = bought
  const { channelWish: wish } = order
  const wanted = { agentId: terms.agentId, sellerId: terms.seller.peerId, amount: channelPrice(terms) }
  const { tokenId } = order
  const left = () => leftOfToken(order, wanted, deps)
  const payer = { tokenId, refusal: () => refusalOf(order, wanted, deps), left }
  const pay = (line: ChannelLine) => buyOnChannel({ ...bought, line }, deps)
  if (terms.isOnChannelsOnly) return payOnNeeded({ terms, wish, payer }, pay, deps.channels, deadline.signal)
  const { channels, logger, clock } = deps
  return channels && payOrWait({ terms, wish, payer }, pay, { channels, logger, clock }, deadline.signal)
}

function callOf(order: RunnableOrder, { agentId, resource = agentId, hops }: Terms, deps: PurchaseDeps) {
  return {
    correlationId: order.correlationId,
    resource,
    task: order.task,
    callerDid: deps.callerDid,
    mayMove: true,
    form: formOf(resource),
    ...(deps.allowSettleFirst === false && { refusesSettleFirst: true }),
    ...(hops !== undefined && { hops }),
    ...(deps.sendGate && { beforePayment: deps.sendGate }),
  }
}

/**
 * Steps 1 to 4. As long as nothing is signed, replaces a stream that was kept open and had ended, and asks another process
 * of the seller if this one does not take the call: see `nextAsk`. The signed payment goes to another process if this one
 * leaves it.
 */
async function payOverStream(bought: Purchase, deps: PurchaseDeps): Promise<ReceivedResponse> {
  const { terms, call, guard, deadline, watch } = bought
  const { signal } = deadline
  const { streams, firstAnswerMs = FIRST_ANSWER_MS, shownWorkMs = SHOWN_WORK_MS } = deps
  const shown = watch === undefined ? call : { ...call, onOutput: watch.output }
  const sign = (demand: PaymentDemand) => signFor(demand, bought, deps)
  let asks: Ask<FramedStream> = FIRST_ASK
  for (let fresh = false; ; fresh = true) {
    const { mayRefer } = asks
    using lease = await takeLease({ seller: terms.seller, streams, fresh }, asks, signal)
    try {
      const response = await exchange(lease, { ...shown, mayRefer }, { sign, firstAnswerMs, shownWorkMs }, signal)
      lease.end()
      return response
    } catch (error) {
      lease.end(error)
      if (signal.aborted) throw error
      if (guard.reservation !== undefined) {
        const signed = { reservation: guard.reservation, call: shown, seller: terms.seller }
        return await sendElsewhere(signed, { refusal: error, instead: lease.stream }, deps, signal)
      }
      if (lease.isReused && outcomeOf(error, undefined) === 'other stream') continue
      asks = nextAsk(asks, error, lease.stream)
    }
  }
}

/** Where there is no other process, the one that refused is asked again or has the last word. */
async function takeLease(
  wanted: Parameters<typeof StreamLease.take>[0],
  { instead, refusal }: Ask<FramedStream>,
  signal: AbortSignal,
): Promise<StreamLease> {
  try {
    return await StreamLease.take({ ...wanted, instead }, signal)
  } catch (error) {
    if (refusal === undefined || signal.aborted) throw error
    if (!isReferral(refusal)) throw refusal
    return StreamLease.take(wanted, signal).catch(() => {
      throw refusal
    })
  }
}

/**
 * Steps 2 to 4 over one stream: ask, sign, send, and take the result. A free agent asks for no payment.
 *
 * @throws PeerError that the seller sends, SellerSilent, TaskTooLong, or the error of `sign` or of the stream
 */
export async function exchange(
  lease: ExchangeStream,
  asked: Call,
  { sign, ...limits }: { sign(demand: PaymentDemand): Promise<PaymentEnvelope> } & AnswerLimits,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  const call = { ...asked, form: asked.form ?? { wrapped: false } }
  for (let challenges = 1; ; challenges++) {
    const answer = await requestX402(lease, call, limits, signal)
    if ('response' in answer) return answer.response
    const payment = await sign(answer.demand)
    try {
      return await sendX402Payment(lease, call, { payment, text: answer.demand.text }, signal)
    } catch (error) {
      if (!(error instanceof PeerError)) throw error
      if (asksForWrapped(error) && !call.form.wrapped && fitsWrapped(call)) {
        // Nothing was charged. The seller has consumed its challenge, but takes the same authorization without one.
        call.form.wrapped = true
        return callX402Preemptively(await lease.current(), call, payment, signal)
      }
      // The seller's challenge expired. Ask for a new challenge and send the same authorization under its nonce.
      if (error.code !== 'PAYMENT_NONCE_EXPIRED' || challenges >= CHALLENGES_MAX) throw error
      // The payment is signed: this process has it.
      call.mayRefer = false
    }
  }
}

/** Step 3. From here on the purchase runs to the end of the payment window. */
async function signFor(
  demand: PaymentDemand,
  { guard, deadline, watch, onSigning }: Purchase,
  deps: PurchaseDeps,
): Promise<PaymentEnvelope> {
  await signatureTurn()
  watch?.status('paying')
  const { reservation, envelope } = await guard.sign(demand, onSigning, deadline.signal)
  const windowMs = reservation.validBeforeSeconds * 1000 - deps.clock.now()
  const { afterWindowMs = AFTER_WINDOW_MS } = deps
  deadline.limit(Math.max(0, windowMs) + afterWindowMs, () => new ResultOverdue())
  watch?.status('running')
  return envelope
}

/** Our ids are plain. The original node names its agents by a DID, or by a peer id and a DID. */
export function formOf(agentId: string): BodyForm {
  return { wrapped: agentId.includes('did:') }
}
