import { faultPoint } from '../../lib/fault-point.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { X402Message } from '../../schema/x402.ts'
import type { FramedStream } from '../framed-stream.ts'
import { PeerError, peerErrorFrom } from '../peer-error.ts'
import { type ReceivedResponse, readAnswer, type SellerAnswer, UnreadableAnswer } from './answers.ts'
import { type AnswerLimits, firstAnswerWithin } from './first-answer.ts'
import { VERSION, writeMessage } from './messages.ts'
import { asStreamEnded, OutputEndless, StreamEnded } from './stream-ended.ts'
import { fitsWrapped, TaskTooLong, unwrapOutput, wrapTask } from './wrapped-body.ts'

/** What a buyer asks of a seller. `task` is text; on the wire it is the base64 of its UTF-8. */
export type Call = {
  correlationId: string
  resource: string
  task: string
  callerDid: string
  /** The form of bodies that this seller wants, as far as known. The exchange writes what it learns here. */
  form?: BodyForm
  /** The seller must refuse the payment if it would settle before its agent runs (an extension, D45). */
  refusesSettleFirst?: boolean
  /** False: the seller may answer before the payment has settled (an extension, D46). Default: true. */
  awaitsSettlement?: boolean
  /** Number of agents that bought for one another, this call included (an extension). */
  hops?: number
  /** The seller may send the call on to another of its processes, if it would wait at this one (an extension). */
  mayRefer?: boolean
  /** The seller may leave the payment to another of its processes, if it loses the machine of the run (an extension). */
  mayMove?: boolean
  /** Other payments to this seller, whose transactions are asked for with a result (an extension, D46). */
  settlementsOf?: readonly Hex[]
  /** Called right before each message with the signed payment. The message waits for it. */
  beforePayment?(signal: AbortSignal): Promise<void>
  /** Called with what the call costs so far, if its output is paid for as it comes. */
  onCharged?(charged: bigint, stream: FramedStream, signal: AbortSignal): void
  /** Called with the agent's output while it works, if the seller supports this extension. */
  onOutput?(text: string): void
}

/** `wrapped`: `{"resource","input"}` and `{"output"}`, as sellers of the original node want bodies; else plain text. */
export type BodyForm = { wrapped: boolean }

export type ExchangeStream = {
  /** Opens another stream if the seller has ended the stream. A seller may do so after every message (D23). */
  current(): Promise<FramedStream>
}

/** What a seller wants to be paid. `text` is the nonce as the seller spells it; `sellerDid` is the seller's word. */
export type PaymentDemand = { requirements: PaymentRequirements; nonce: Hex; text: string; sellerDid: string }

/** Characters of output accepted: several times the longest result. A piece costs 16 more, to bound tiny ones (T7). */
const OUTPUT_MAX = 16 * 1024 * 1024
const OUTPUT_FRAME_COST = 16

/**
 * Sends the task without a payment. @returns the response of a free agent, or what the seller wants to be paid
 * @throws PeerError that the seller sends, SellerSilent, TaskTooLong, or the error of the stream
 */
export async function requestX402(
  exchange: ExchangeStream,
  call: Call & { form: BodyForm },
  limits: AnswerLimits,
  signal: AbortSignal,
): Promise<{ response: ReceivedResponse } | { demand: PaymentDemand }> {
  checkFits(call)
  const stream = await exchange.current()
  const first = firstAnswerWithin(limits, signal)
  const answered = writeMessage(stream, 'x402.request', requestOf(call, 'execute', null), first.signal).then(() =>
    nextAnswer(stream, call, first.signal, first.begun),
  )
  const answer = await answered.catch(first.failed).finally(first.clear)
  if (answer.type === 'x402.response') return { response: unwrapped(answer.message, call) }
  const { payment_requirements: requirements, challenge_nonce, seller_did: sellerDid } = answer.message
  // A nonce without 0x comes from the original node, which wraps bodies.
  if (answer.challengeText !== challenge_nonce) call.form.wrapped = true
  // Check before signing: a task that does not fit cannot be sent.
  checkFits(call)
  return { demand: { requirements, nonce: challenge_nonce as Hex, text: answer.challengeText, sellerDid } }
}

/** @throws TaskTooLong */
function checkFits(call: Call): void {
  if (call.form?.wrapped && !fitsWrapped(call)) throw new TaskTooLong()
}

/**
 * Sends the paid request; once more on another stream if the seller ends the first without an answer, because it may
 * not have arrived. The authorization can be spent only once, no matter how often it is sent.
 */
export async function sendX402Payment(
  exchange: ExchangeStream,
  call: Call,
  { payment, text }: { payment: PaymentEnvelope; text: string },
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  for (let streams = 1; ; streams++) {
    const stream = await exchange.current()
    await call.beforePayment?.(signal)
    await writeMessage(stream, 'x402.paid_request', paidRequestOf(call, payment, text), signal)
    faultPoint('buyer:sent')
    try {
      return await nextResponse(stream, call, signal)
    } catch (error) {
      if (!(error instanceof StreamEnded) || streams > 1) throw error
    }
  }
}

/** Sends the task with a payment signed earlier, which the seller never saw or whose challenge it forgot. */
export async function callX402Preemptively(
  stream: FramedStream,
  call: Call,
  payment: PaymentEnvelope,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  await call.beforePayment?.(signal)
  const preemptive = { ...payment, server_nonce: 'preemptive' as const }
  await writeMessage(stream, 'x402.request', requestOf(call, 'execute', preemptive), signal)
  return nextResponse(stream, call, signal)
}

/** Asks for the price of one run with an empty task, and does nothing more. @throws PeerError that the seller sends */
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
 * Asks again for the result of a payment (D32). A seller that does not know `method` reads the request as a payment for
 * the task: if it wants wrapped bodies, the task is therefore sent too.
 */
export async function askX402Result(
  stream: FramedStream,
  call: Omit<Call, 'task'> & { task?: string },
  payment: PaymentEnvelope,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  await call.beforePayment?.(signal)
  const asking = { ...call, task: (call.form?.wrapped && call.task) || '' }
  await writeMessage(stream, 'x402.request', requestOf(asking, 'result', payment), signal)
  return nextResponse(stream, asking, signal)
}

/**
 * Asks for the receipt of a payment as x402 has it. @returns what the seller sent as one
 * @throws PeerError that the seller sends: `INVALID_MESSAGE` if it does not know this method
 */
export async function askX402Receipt(
  stream: FramedStream,
  call: Omit<Call, 'task'>,
  payment: PaymentEnvelope,
  signal: AbortSignal,
): Promise<unknown> {
  const asking = { ...call, task: '' }
  await writeMessage(stream, 'x402.request', requestOf(asking, 'receipt', payment), signal)
  return (await nextResponse(stream, asking, signal)).receipt
}

/** Sends a request about the money of a payment channel, which runs no agent. @throws PeerError that the seller sends */
export async function sendX402Funds(
  stream: FramedStream,
  call: Omit<Call, 'task'>,
  { method, payment }: { method: 'deposit' | 'refund'; payment: PaymentEnvelope },
  signal: AbortSignal,
): Promise<void> {
  const asking = { ...call, task: '' }
  await writeMessage(stream, 'x402.request', requestOf(asking, method, payment), signal)
  await nextResponse(stream, asking, signal)
}

type Method = X402Message<'x402.request'>['method']

function requestOf(call: Call, method: Method, payment: PaymentEnvelope | null) {
  const paying = payment !== null && method === 'execute' ? payingFieldsOf(call) : {}
  const asking = call.settlementsOf === undefined ? {} : { settlements_of: call.settlementsOf }
  const referring = call.mayRefer === true && payment === null && method === 'execute' ? { may_refer: true } : {}
  return { ...fieldsOf(call), ...paying, ...asking, ...referring, resource: call.resource, method, payment } as const
}

/** `challengeText` is the nonce as the seller spells it, because the seller compares it as text. */
function paidRequestOf(call: Call, payment: PaymentEnvelope, challengeText: string) {
  const named = { ...payment, server_nonce: challengeText as Hex }
  const moving = call.mayMove === true ? { may_move: true } : {}
  return { ...fieldsOf(call), ...payingFieldsOf(call), ...moving, payment: named } as const
}

/** The fields that only a message with a payment for a run has. */
function payingFieldsOf({ awaitsSettlement }: Call): { await_settlement?: false } {
  return awaitsSettlement === false ? { await_settlement: false } : {}
}

function fieldsOf(call: Call) {
  return {
    version: VERSION,
    correlation_id: call.correlationId,
    body: bodyOf(call),
    caller_did: call.callerDid,
    ...(call.onOutput && { stream: true }),
    ...(call.refusesSettleFirst === true && { allow_settle_first: false }),
    ...(call.hops !== undefined && { hops: call.hops }),
    // The original node signs no receipts.
    ...(call.form?.wrapped !== true && { receipt: 'merkle' }),
  } as const
}

function bodyOf({ resource, task, form }: Call): string {
  return Buffer.from(form?.wrapped ? wrapTask(resource, task) : task).toString('base64')
}

type ExchangeAnswer = Extract<SellerAnswer, { type: 'x402.response' | 'x402.payment_required' }>

/** The next message of this exchange. Messages of other exchanges on the stream are skipped. */
async function nextAnswer(
  stream: FramedStream,
  { correlationId, onOutput, onCharged }: Pick<Call, 'correlationId' | 'onOutput' | 'onCharged'>,
  signal: AbortSignal,
  begun: () => void = () => {},
): Promise<ExchangeAnswer> {
  let shown = 0
  for (;;) {
    const answer = await readAnswer(stream, signal).catch(asStreamEnded)
    if (answer === undefined) throw new StreamEnded()
    const { message } = answer
    if (answer.type === 'x402.error' && isFor(message.correlation_id, correlationId)) {
      const { error_code: number, error_name: name, message: reason, retryable, refund_tx, channel } = answer.message
      const error = peerErrorFrom({ number, name, message: reason, retryable, refundTx: refund_tx, channel })
      error.correlationId = correlationId
      throw error
    }
    if (message.correlation_id.toLowerCase() !== correlationId) continue
    if (answer.type === 'x402.output' && onOutput !== undefined) {
      begun()
      shown += answer.message.text.length + OUTPUT_FRAME_COST
      if (shown > OUTPUT_MAX) throw new OutputEndless()
      const { text, charged } = answer.message
      if (text !== '') onOutput(text)
      if (charged !== undefined) onCharged?.(charged, stream, signal)
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

/** True for an error about this exchange, or about unreadable bytes: on our stream only our request can be meant. */
function isFor(received: string, correlationId: string): boolean {
  return received === correlationId || received.startsWith('00000000-')
}
