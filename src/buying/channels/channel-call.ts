import { faultPoint } from '../../lib/fault-point.ts'
import { doubledMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import type { FramedStream } from '../../protocols/framed-stream.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../../protocols/streams.ts'
import { type ReceivedResponse, UnreadableAnswer } from '../../protocols/x402/answers.ts'
import { askX402Result, type Call, callX402Preemptively } from '../../protocols/x402/client.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Reservation } from '../../store/purchases.ts'
import { onStream } from '../stream-lease.ts'
import type { ChannelLine } from './channel-line.ts'
import type { Growth } from './growth.ts'

/** Pauses before a seller is asked again. */
const BACKOFF = { firstMs: 200, mostMs: 5_000 }
/** Processes of the seller that are asked before the call is paid for in another way. */
const ELSEWHERE_MAX = 4

/** The seller does not take a call on the channel, and has charged nothing for it. It may be paid for in another way. */
export class ChannelRefused extends Error {
  override name = 'ChannelRefused'
  /** What the seller answered. */
  readonly answer: PeerError
  constructor(answer: PeerError) {
    super(answer.message, { cause: answer })
    this.answer = answer
  }
}

type SentCall = {
  line: ChannelLine
  reservation: Reservation
  call: Call
  seller: StreamPeer
  streams: StreamPool
  /** Set if the call is paid for as its output comes. */
  growth?: Growth | undefined
  /** False: a call that the seller never saw is not sent again, because it is over. Default: true. */
  mayRun?: boolean
}

/** What to do next about a call. */
type Next = { method: 'execute' | 'result'; instead?: FramedStream; wait?: boolean } | { end: Error }

/** What a call was asked for, and on which stream. */
type AskedOn = { method: 'execute' | 'result'; stream: FramedStream | undefined }

/** What was learned while a call was asked for. */
type Progress = {
  elsewhere: number
  /** True: one process has said that another has the channel. */
  isMoving: boolean
  isCorrected: boolean
  hasSentTerms: boolean
  mayRun: boolean
}

/**
 * Sends a call that its channel pays, and takes the result. The id of the call guards the work: it may be sent as often as
 * it takes, and is run and charged once.
 *
 * An answer that was lost is asked for before anything else is done about the call.
 *
 * @param payment the first payment of the call; undefined: the call may have been sent before, so its result is asked for
 * @throws ChannelRefused; PeerError: the call failed, and was not charged; the signal's reason: in doubt
 */
export async function sendOnChannel(
  sent: SentCall,
  payment: PaymentEnvelope | undefined,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  const hasSentTerms = payment?.channel?.config !== undefined
  const mayRun = sent.mayRun ?? true
  const progress: Progress = { elsewhere: 0, isMoving: false, isCorrected: false, hasSentTerms, mayRun }
  let next: Next = { method: payment === undefined ? 'result' : 'execute' }
  let first = payment
  for (let turn = 1; ; turn++) {
    if (next.wait === true) await pause(doubledMs(turn, BACKOFF), signal)
    signal.throwIfAborted()
    const { method, instead } = next
    const used: { stream?: FramedStream } = {}
    try {
      const envelope = first ?? (await paymentOf(sent))
      first = undefined
      return await ask(sent, { method, envelope, instead, used }, signal)
    } catch (error) {
      signal.throwIfAborted()
      if (mustCoverAll(error, sent)) {
        await sent.growth?.coverAll()
        next = { method: 'execute' }
        continue
      }
      const follows = await after(error, { method, stream: used.stream }, sent.line, progress)
      if ('end' in follows) throw follows.end
      next = follows
    }
  }
}

function ask(
  sent: SentCall,
  {
    method,
    envelope,
    instead,
    used,
  }: {
    method: 'execute' | 'result'
    envelope: PaymentEnvelope
    instead: FramedStream | undefined
    used: { stream?: FramedStream }
  },
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  const { seller, streams, growth } = sent
  const onCharged: Call['onCharged'] = growth?.grows ? (...stated) => growth.charged(...stated) : undefined
  const call = onCharged === undefined ? sent.call : { ...sent.call, onCharged }
  const wanted = { seller, streams, instead, ...(method === 'result' && { urgent: true }) }
  return onStream(
    wanted,
    ({ stream }) => {
      used.stream = stream
      const payment = withPricing(envelope, sent)
      if (method === 'result') return askX402Result(stream, call, payment, signal)
      const answered = callX402Preemptively(stream, call, payment, signal)
      faultPoint('buyer:call-sent')
      return answered
    },
    signal,
  )
}

/** Says under which prices the call is bought, since the seller may have others by now, and whether its ceiling rises. */
function withPricing(envelope: PaymentEnvelope, { reservation, growth }: SentCall): PaymentEnvelope {
  const { channel } = envelope
  const pricing = reservation.metered?.pricing
  if (pricing === undefined || channel === undefined) return envelope
  return { ...envelope, channel: { ...channel, pricing, ...(growth?.grows && { grows: true as const }) } }
}

/** A seller may not let the ceiling of a call rise, or want more at its begin. Nothing ran. */
function mustCoverAll(error: unknown, { growth }: SentCall): boolean {
  return error instanceof PeerError && error.code === 'PAYMENT_AMOUNT_WRONG' && growth?.grows === true
}

/** The payment of a call that is in flight already. */
async function paymentOf({ line, reservation, growth }: SentCall): Promise<PaymentEnvelope> {
  const asked = growth?.granted ?? reservation.amount
  return { ...reservation.envelope, channel: await line.again(asked) }
}

/** What follows from an error of a call. */
async function after(error: unknown, asked: AskedOn, line: ChannelLine, progress: Progress): Promise<Next> {
  const { method } = asked
  // The answer was lost. Only the seller knows whether the call runs.
  if (!(error instanceof PeerError) || error instanceof UnreadableAnswer) return { method: 'result', wait: true }
  const said = error.channel
  if (said === undefined) return afterAnswer(error, asked, progress)
  switch (said.reason) {
    case 'unknown':
      line.forget()
      if (!progress.mayRun || (progress.hasSentTerms && method === 'execute')) return { end: new ChannelRefused(error) }
      progress.hasSentTerms = true
      return { method: 'execute' }
    case 'elsewhere':
      progress.isMoving = true
      return whileMoving(error, asked, progress)
    case 'voucher': {
      if (progress.isCorrected) return { end: new ChannelRefused(error) }
      progress.isCorrected = true
      if (!(await line.adopt(said)) && line.isOverstated(said)) {
        line.stop(`the seller states a sum of ${said.counted?.total}, more than its calls can have cost`)
        return { end: new ChannelRefused(error) }
      }
      return { method }
    }
    default:
      return { end: new ChannelRefused(error) }
  }
}

/** A channel moves from one process of its seller to another as soon as no call runs on it. */
function whileMoving(error: PeerError, { method, stream }: AskedOn, progress: Progress): Next {
  progress.elsewhere++
  if (stream !== undefined && progress.elsewhere <= ELSEWHERE_MAX) {
    return { method, instead: stream, wait: progress.elsewhere > 1 }
  }
  return method === 'result' ? { method, wait: true } : { end: new ChannelRefused(error) }
}

/** What follows from an answer that says nothing of the channel. */
function afterAnswer(error: PeerError, asked: AskedOn, progress: Progress): Next {
  const { method, stream } = asked
  switch (error.code) {
    case 'PAYMENT_REQUIRED':
      // The seller never saw the call.
      if (method === 'result' && progress.mayRun) return { method: 'execute', wait: true }
      return { end: new ChannelRefused(error) }
    case 'PAYMENT_INVALID':
    case 'PAYMENT_AMOUNT_WRONG':
    case 'PAYMENT_NONCE_MISMATCH':
      return { end: new ChannelRefused(error) }
    case 'PAYMENT_NONCE_USED':
      return { method: 'result', wait: true }
    case 'OVERLOADED':
    case 'UNKNOWN_RESOURCE':
      // A process that stops still has its channels for a moment, and takes no call.
      if (progress.isMoving) return whileMoving(error, asked, progress)
      // Another process of the seller may take it.
      progress.elsewhere++
      if (method === 'execute' && stream !== undefined && progress.elsewhere === 1) return { method, instead: stream }
      return method === 'result' ? { method, wait: true } : { end: error }
    case 'SETTLEMENT_FAILED':
      return { method: 'result', wait: true }
    default:
      return { end: error }
  }
}
