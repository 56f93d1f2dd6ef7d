import { isUtf8 } from 'node:buffer'
import { paidFor } from '../ledger/received-receipt.ts'
import type { Clock } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import type { Logger } from '../lib/logger.ts'
import { MarketError } from '../listings/market-error.ts'
import { peerNamed } from '../p2p/did.ts'
import { signatureTurn } from '../payments/signature-turn.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../protocols/streams.ts'
import { type ReceivedResponse, UnreadableAnswer } from '../protocols/x402/answers.ts'
import {
  askX402Result,
  type BodyForm,
  type Call,
  callX402,
  callX402Preemptively,
  type Pay,
  type Reopen,
} from '../protocols/x402/client.ts'
import { FIRST_ANSWER_MS, SellerSilent, SHOWN_WORK_MS } from '../protocols/x402/first-answer.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Order, Paid, Reservation } from '../store/purchases.ts'
import { Deadline, ResultOverdue } from './deadline.ts'
import { Signing, type SigningDeps, type Terms } from './guard.ts'
import { onStream, StaleStream } from './on-stream.ts'
import type { Watch } from './watch.ts'

const BACKOFF_MS = [200, 500, 1_000, 2_000, 5_000]
/** A payment is sent again only while the seller has time to run and settle it. */
const RESEND_MARGIN_SECONDS = 15
/** After its window a payment is judged by the chain, which the recovery asks. No caller waits longer. */
const AFTER_WINDOW_MS = 30_000

export type PurchaseDeps = SigningDeps & {
  logger: Logger
  streams: StreamPool
  callerDid: string
  /** How long a seller may take to name its price; and where it shows work before that. */
  firstAnswerMs?: number
  shownWorkMs?: number
  /** How long its answer is waited for after the window of the payment. */
  afterWindowMs?: number
}

/** What a response holds: text, whatever bytes it is, and the bytes where they are no text. */
export type Delivered = {
  output: string
  outputBytes: Uint8Array | undefined
  /** What was missing or odd in the response. */
  notes: readonly string[]
  txHash: Hex | undefined
}
export type Purchased = Delivered & { reservation: Reservation | undefined; paid?: Paid }

/**
 * Buys one run of a paid agent.
 *
 * 1. ask; the seller names its requirements and a challenge
 * 2. guard: what is asked equals the listing and fits order and budget, or nothing is signed (D33)
 * 3. sign, store the reservation, send: in this order, so that what may be spent is always known
 * 4. take the result; after a lost connection ask for it again, with the same authorization and never a second one (D32)
 *
 * @throws MarketError, or PeerError as the seller answers. Once signed for, the reservation stays until it is resolved.
 */
export async function purchase(
  order: Order,
  terms: Terms,
  task: string,
  deps: PurchaseDeps,
  caller: AbortSignal,
  watch?: Watch,
): Promise<Purchased> {
  const deadline = new Deadline(caller)
  try {
    return await buy(order, terms, task, deps, deadline, watch)
  } finally {
    deadline.clear()
  }
}

async function buy(
  order: Order,
  terms: Terms,
  task: string,
  deps: PurchaseDeps,
  deadline: Deadline,
  watch: Watch | undefined,
): Promise<Purchased> {
  const { signal } = deadline
  const { agentId, resource = agentId, hops } = terms
  const call: Call = {
    correlationId: order.correlationId ?? order.id,
    resource,
    task,
    callerDid: deps.callerDid,
    form: formOf(resource),
    ...(deps.allowSettleFirst === false && { refusesSettleFirst: true }),
    ...(hops !== undefined && { hops }),
  }
  const signing = new Signing(order, terms, deps)
  const pay: Pay = async (requirements, challengeNonce, sellerDid = '') => {
    const named = peerNamed(sellerDid)
    if (named !== undefined && named !== terms.seller.peerId) {
      throw new MarketError(
        'LISTING_MISMATCH',
        `the seller calls itself ${sellerDid}, another peer: nothing was signed`,
      )
    }
    await signatureTurn()
    watch?.status('paying')
    const envelope = await signing.pay(requirements, challengeNonce, signal)
    const windowMs = signing.reservation!.validBeforeSeconds * 1000 - deps.clock.now()
    const { afterWindowMs = AFTER_WINDOW_MS } = deps
    deadline.limit(Math.max(0, windowMs) + afterWindowMs, () => new ResultOverdue())
    watch?.status('running')
    return envelope
  }
  let response: ReceivedResponse
  try {
    const first = watch === undefined ? call : { ...call, onOutput: watch.output }
    response = await firstCall(terms.seller, first, pay, signing, deps, signal)
  } catch (error) {
    const { reservation } = signing
    if (reservation === undefined || isFinal(error)) throw error
    const ids = { order_id: order.id, correlation_id: call.correlationId }
    deps.logger.warn({ ...ids, err: error }, 'a paid call was cut off; asking for its result')
    response = await recoverResult(reservation, call, terms.seller, deps, signal)
  }
  faultPoint('buyer:answered')
  return received(response, signing.reservation && { ...signing.reservation, agentId: resource }, task, deps)
}

/**
 * Gets what was paid for after the connection was lost, whichever side was restarted meanwhile.
 *
 * A seller that never saw the payment is sent the same one again: the authorization can be spent once, whoever asks how
 * often.
 */
export async function recoverResult(
  reservation: Reservation,
  call: Call,
  seller: StreamPeer,
  deps: Pick<PurchaseDeps, 'clock' | 'logger' | 'streams'>,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  for (let turn = 0; ; turn++) {
    try {
      const ask = (stream: FramedStream) => askX402Result(stream, call, reservation.envelope, signal)
      return await onStream(seller, deps.streams, signal, ask, { urgent: true })
    } catch (error) {
      signal.throwIfAborted()
      const unseen = error instanceof PeerError && error.code === 'PAYMENT_REQUIRED'
      if (error instanceof PeerError && isLastWord(error) && !unseen) throw error
      if (unseen && maySend(reservation, deps.clock)) {
        const again = await sendAgain(reservation, call, seller, deps, signal)
        if (again !== undefined) return again
      } else if (unseen) {
        throw error
      }
    }
    await pause(BACKOFF_MS[Math.min(turn, BACKOFF_MS.length - 1)]!, signal)
  }
}

async function sendAgain(
  reservation: Reservation,
  call: Call,
  seller: StreamPeer,
  deps: Pick<PurchaseDeps, 'streams'>,
  signal: AbortSignal,
): Promise<ReceivedResponse | undefined> {
  try {
    return await onStream(seller, deps.streams, signal, (stream) =>
      callX402Preemptively(stream, call, reservation.envelope, signal),
    )
  } catch (error) {
    signal.throwIfAborted()
    // "used": an earlier copy got through after all, so there is a result to ask for.
    if (error instanceof PeerError && isLastWord(error) && error.code !== 'PAYMENT_NONCE_USED') throw error
    return undefined
  }
}

/** The whole exchange; a stream that turns out to be dead is replaced as long as nothing was signed. */
async function firstCall(
  seller: StreamPeer,
  call: Call,
  pay: Pay,
  signing: Signing,
  deps: PurchaseDeps,
  signal: AbortSignal,
) {
  const { streams, firstAnswerMs = FIRST_ANSWER_MS, shownWorkMs = SHOWN_WORK_MS } = deps
  const limits = { firstAnswerMs, shownWorkMs }
  const run = (stream: FramedStream, reopen: Reopen) => callX402(stream, call, { pay, reopen, ...limits }, signal)
  try {
    return await onStream(seller, streams, signal, run)
  } catch (error) {
    if (error instanceof StaleStream && error.cause instanceof SellerSilent) throw error.cause
    if (!(error instanceof StaleStream) || signing.reservation !== undefined) throw error
    return onStream(seller, streams, signal, run, { fresh: true })
  }
}

/**
 * Whether nothing more will come of a payment after this answer.
 *
 * A run that failed has voided it: "retryable" means then that another purchase may fare better. Only of an error we do
 * not know is it believed that asking again may help. An answer that cannot be read says nothing of the payment.
 */
export function isLastWord(error: PeerError): boolean {
  if (error instanceof UnreadableAnswer) return false
  return !error.retryable || (error.code === 'EXECUTION_FAILED' && !error.isForeign)
}

/**
 * An answer to a payment after which asking again cannot help, or a refusal of our own.
 *
 * "Used" means that there is a result to ask for; "mismatch", that the seller has forgotten its challenge, in a restart
 * or among too many: it takes the same payment without one.
 */
function isFinal(error: unknown): boolean {
  if (!(error instanceof PeerError)) return error instanceof MarketError
  return isLastWord(error) && error.code !== 'PAYMENT_NONCE_USED' && error.code !== 'PAYMENT_NONCE_MISMATCH'
}

function maySend(reservation: Reservation, clock: Clock): boolean {
  return reservation.validBeforeSeconds - clock.now() / 1000 > RESEND_MARGIN_SECONDS
}

function received(
  response: ReceivedResponse,
  reservation: Reservation | undefined,
  task: string,
  deps: PurchaseDeps,
): Purchased {
  const delivered = readResponse(response)
  if (reservation === undefined) return { ...delivered, reservation }
  const notes = notesOf(response, reservation, delivered)
  if (notes.length > 0) {
    const ids = { order_id: reservation.orderId, correlation_id: response.correlation_id }
    deps.logger.warn({ ...ids, notes }, 'the response of a seller is odd; its result is taken')
  }
  return { ...delivered, notes, reservation, paid: paidFor(response, reservation, task, deps.logger) }
}

/** All that is odd in the response to a payment. */
export function notesOf(
  { payment_id, seller_did }: ReceivedResponse,
  { paymentId, sellerId }: Pick<Reservation, 'paymentId' | 'sellerId'>,
  { notes }: Delivered,
): readonly string[] {
  const named = peerNamed(seller_did)
  return [
    ...notes,
    ...(payment_id === '' || payment_id.toLowerCase() === paymentId
      ? []
      : [`payment_id is that of another payment: ${payment_id}`]),
    ...(named === undefined || named === sellerId ? [] : [`seller_did is that of another peer: ${seller_did}`]),
  ]
}

/** The result is the seller's data: text, whatever bytes it sent (T10). */
export function readResponse({ body, tx_hash, oddities }: ReceivedResponse): Delivered {
  const bytes = Buffer.from(body, 'base64')
  return {
    output: bytes.toString('utf8'),
    outputBytes: isUtf8(bytes) ? undefined : bytes,
    notes: oddities,
    txHash: tx_hash === '' ? undefined : tx_hash,
  }
}

/** Ids of our own kind are plain; a DID, or a peer id before it, is how the original node names its agents. */
export function formOf(agentId: string): BodyForm {
  return { wrapped: agentId.includes('did:') }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', aborted)
      resolve()
    }, ms)
    signal.addEventListener('abort', aborted, { once: true })
  })
}
