import { faultPoint } from '../../lib/fault-point.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { X402Message } from '../../schema/x402.ts'
import { FrameError } from '../frame.ts'
import type { FramedStream } from '../framed-stream.ts'
import { PeerError, peerErrorFrom } from '../peer-error.ts'
import { type ReceivedResponse, readAnswer, type SellerAnswer, UnreadableAnswer } from './answers.ts'
import { type AnswerLimits, firstAnswerWithin } from './first-answer.ts'
import { VERSION, writeMessage } from './messages.ts'
import { asksForWrapped, fitsWrapped, TaskTooLong, unwrapOutput, wrapTask } from './wrapped-body.ts'

/** What a buyer asks of a seller. `task` is text; on the wire it is the base64 of its UTF-8. */
export type Call = {
  correlationId: string
  resource: string
  task: string
  callerDid: string
  /** What is known of how this seller wants bodies; what the exchange shows is written here. */
  form?: BodyForm
  /** Has the seller refuse the payment rather than settle it before its agent runs: an extension of the protocol (D45). */
  refusesSettleFirst?: boolean
  /** How many agents have bought for one another, this call included: an extension of the protocol. */
  hops?: number
  /** Told what the agent says while it works, by a seller that can. Asking for it is an extension of the protocol. */
  onOutput?(text: string): void
}

/** Bodies are `{"resource","input"}` and `{"output"}`, as sellers of the original node want them, or plain. */
export type BodyForm = { wrapped: boolean }

/**
 * Signs a payment for what the seller asks, or throws when it is more than the buyer agreed to.
 *
 * Called again for the same call when the seller wants a new challenge: it then returns the same authorization under the
 * new nonce. One purchase is never signed twice (D33).
 */
/** @param sellerDid who the seller says it is */
export type Pay = (
  requirements: PaymentRequirements,
  challengeNonce: Hex,
  sellerDid?: string,
) => Promise<PaymentEnvelope>

/** Opens another stream to the same seller, for one that ends its stream after every message (D23). */
export type Reopen = () => Promise<FramedStream>

const CHALLENGES_MAX = 3
/** Characters of output, the smallest piece counting for more than it is: several times the longest result. */
const OUTPUT_MAX = 16 * 1024 * 1024
const OUTPUT_FRAME_COST = 16

/**
 * Runs one exchange, as the client of the protocol. The mirror of serveX402.
 *
 * @returns the response; for a free agent no payment is asked for
 * @throws PeerError as the seller sends it, SellerSilent, or whatever the stream fails with
 */
export async function callX402(
  stream: FramedStream,
  call: Call,
  deps: { pay: Pay; reopen: Reopen } & AnswerLimits,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  const form = call.form ?? { wrapped: false }
  call = { ...call, form }
  if (form.wrapped && !fitsWrapped(call)) throw new TaskTooLong()
  let current = stream
  const open = async () => {
    if (!current.writable || current.ended) current = await deps.reopen()
    return current
  }
  for (let challenges = 1; ; challenges++) {
    const first = firstAnswerWithin(deps, signal)
    await writeMessage(await open(), 'x402.request', requestOf(call, 'execute', null), first.signal).catch(first.failed)
    const asked = await nextAnswer(current, call, first.signal, first.begun).catch(first.failed).finally(first.clear)
    if (asked.type === 'x402.response') return unwrapped(asked.message, call)
    const { payment_requirements, challenge_nonce, seller_did } = asked.message
    const { challengeText } = asked
    // A nonce without 0x: the original node, whose bodies are wrapped.
    if (challengeText !== challenge_nonce) form.wrapped = true
    // Nothing is signed for a task that can then not be sent.
    if (form.wrapped && !fitsWrapped(call)) throw new TaskTooLong()
    const payment = await deps.pay(payment_requirements, challenge_nonce as Hex, seller_did)
    try {
      return await sendPayment(open, call, payment, challengeText, signal)
    } catch (error) {
      if (!(error instanceof PeerError)) throw error
      if (asksForWrapped(error) && !form.wrapped && fitsWrapped(call)) {
        // Nothing was charged. That seller has used up its challenge, and takes the same authorization without one.
        form.wrapped = true
        return callX402Preemptively(await open(), call, payment, signal)
      }
      // "request a new challenge": the same authorization, under a nonce that still lives.
      if (error.code !== 'PAYMENT_NONCE_EXPIRED' || challenges >= CHALLENGES_MAX) throw error
    }
  }
}

/**
 * Sends the paid request, and once more on another stream if the seller has ended this one unanswered: it may have done
 * so before it came. The authorization can be spent once, however often it is sent.
 */
async function sendPayment(
  open: Reopen,
  call: Call,
  payment: PaymentEnvelope,
  challengeText: string,
  signal: AbortSignal,
) {
  for (let streams = 1; ; streams++) {
    const stream = await open()
    await writeMessage(stream, 'x402.paid_request', paidRequestOf(call, payment, challengeText), signal)
    faultPoint('buyer:sent')
    try {
      return await nextResponse(stream, call, signal)
    } catch (error) {
      if (!(error instanceof StreamEnded) || streams > 1) throw error
    }
  }
}

/** Sends the task with a payment that was signed before: for a seller that never saw it, or no longer knows its challenge. */
export async function callX402Preemptively(
  stream: FramedStream,
  call: Call,
  payment: PaymentEnvelope,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  const preemptive = { ...payment, server_nonce: 'preemptive' as const }
  await writeMessage(stream, 'x402.request', requestOf(call, 'execute', preemptive), signal)
  return nextResponse(stream, call, signal)
}

/** Asks what one run costs now, with an empty task, and leaves it at that. @throws PeerError as the seller sends it */
export async function askX402Price(
  stream: FramedStream,
  call: Omit<Call, 'task'>,
  signal: AbortSignal,
): Promise<X402Message<'x402.payment_required'>> {
  await writeMessage(stream, 'x402.request', requestOf({ ...call, task: '' }, 'execute', null), signal)
  const answer = await nextAnswer(stream, call, signal)
  if (answer.type === 'x402.payment_required') return answer.message
  throw new PeerError('INVALID_MESSAGE', 'the seller lists a price and asks for none')
}

/**
 * Asks again for what a payment has bought (D32).
 *
 * A seller that knows no `method` takes it for a payment of the task: where that may be, the task goes with it.
 */
export async function askX402Result(
  stream: FramedStream,
  call: Omit<Call, 'task'> & { task?: string },
  payment: PaymentEnvelope,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  const asking = { ...call, task: (call.form?.wrapped && call.task) || '' }
  await writeMessage(stream, 'x402.request', requestOf(asking, 'result', payment), signal)
  return nextResponse(stream, asking, signal)
}

function requestOf(call: Call, method: 'execute' | 'result', payment: PaymentEnvelope | null) {
  return {
    version: VERSION,
    correlation_id: call.correlationId,
    resource: call.resource,
    method,
    payment,
    body: bodyOf(call),
    caller_did: call.callerDid,
    ...(call.onOutput && { stream: true }),
    ...(call.refusesSettleFirst === true && { allow_settle_first: false }),
    ...(call.hops !== undefined && { hops: call.hops }),
  } as const
}

/** `challengeText`: the nonce as the seller spells it, which it compares as text. */
function paidRequestOf(call: Call, payment: PaymentEnvelope, challengeText: string) {
  return {
    version: VERSION,
    correlation_id: call.correlationId,
    payment: { ...payment, server_nonce: challengeText as Hex },
    body: bodyOf(call),
    caller_did: call.callerDid,
    ...(call.onOutput && { stream: true }),
    ...(call.refusesSettleFirst === true && { allow_settle_first: false }),
    ...(call.hops !== undefined && { hops: call.hops }),
  } as const
}

function bodyOf({ resource, task, form }: Call): string {
  return Buffer.from(form?.wrapped ? wrapTask(resource, task) : task).toString('base64')
}

type Answer = Extract<SellerAnswer, { type: 'x402.response' | 'x402.payment_required' }>

/** The next message of this exchange; what a stream still carries of another one is passed over. */
async function nextAnswer(
  stream: FramedStream,
  { correlationId, onOutput }: Pick<Call, 'correlationId' | 'onOutput'>,
  signal: AbortSignal,
  begun: () => void = () => {},
): Promise<Answer> {
  let shown = 0
  for (;;) {
    const answer = await readAnswer(stream, signal).catch(asStreamEnded)
    if (answer === undefined) throw new StreamEnded()
    const { message } = answer
    if (answer.type === 'x402.error' && isFor(message.correlation_id, correlationId)) {
      const { error_code: number, error_name: name, message: reason, retryable, refund_tx } = answer.message
      const error = peerErrorFrom({ number, name, message: reason, retryable, refundTx: refund_tx })
      error.correlationId = correlationId
      throw error
    }
    if (message.correlation_id.toLowerCase() !== correlationId) continue
    if (answer.type === 'x402.output' && onOutput !== undefined) {
      begun()
      shown += answer.message.text.length + OUTPUT_FRAME_COST
      if (shown > OUTPUT_MAX) throw new OutputEndless()
      onOutput(answer.message.text)
      continue
    }
    if (answer.type === 'x402.response' || answer.type === 'x402.payment_required') return answer
    throw new UnreadableAnswer('INVALID_MESSAGE', `the seller sent ${answer.type}, which is no answer`)
  }
}

async function nextResponse(stream: FramedStream, call: Call, signal: AbortSignal) {
  const answer = await nextAnswer(stream, call, signal)
  if (answer.type === 'x402.response') return unwrapped(answer.message, call)
  throw new PeerError('PAYMENT_REQUIRED', 'the seller asks to be paid again', { retryable: false })
}

function unwrapped(response: ReceivedResponse, { form }: Pick<Call, 'form'>): ReceivedResponse {
  return form?.wrapped ? { ...response, body: unwrapOutput(response.body) } : response
}

/** The seller says more than any result may hold. What was paid for is there to be asked for (T7, T10). */
class OutputEndless extends Error {
  override name = 'OutputEndless'
  constructor() {
    super('the seller sent more output than a result may hold')
  }
}

/** The seller ended the stream without an answer, or inside it. */
export class StreamEnded extends Error {
  override name = 'StreamEnded'
  constructor(options: ErrorOptions = {}) {
    super('the seller ended the stream without an answer', options)
  }
}

/** A frame that did not arrive whole says nothing of the exchange: the answer is there to be asked for (T23). */
function asStreamEnded(error: unknown): never {
  const cause = error instanceof PeerError ? error.cause : undefined
  const isCut = cause instanceof FrameError && (cause.code === 'FRAME_CUT' || cause.code === 'FRAME_SLOW')
  throw isCut ? new StreamEnded({ cause }) : error
}

/** An error about bytes that could not be read carries no id of ours: on a stream of our own it can only be ours. */
function isFor(received: string, correlationId: string): boolean {
  return received === correlationId || received.startsWith('00000000-')
}
