import { isUtf8 } from 'node:buffer'
import { paidFor } from '../ledger/received-receipt.ts'
import type { Clock } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import type { Logger } from '../lib/logger.ts'
import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
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

const BACKOFF = { firstMs: 200, mostMs: 5_000 }
/** Resend a payment only if this much of its window is left: the seller needs time to run and settle. */
const RESEND_MARGIN_SECONDS = 15
/** How long a caller waits after the payment window ends. Then the recovery asks the chain. */
const AFTER_WINDOW_MS = 30_000

export type PurchaseDeps = SigningDeps & {
  logger: Logger
  streams: StreamPool
  callerDid: string
  /** Time for a seller to name its price, in ms. `shownWorkMs` applies to a seller that shows output first. */
  firstAnswerMs?: number
  shownWorkMs?: number
  /** How long to wait for the answer after the payment window ends, in ms. */
  afterWindowMs?: number
}

/** The content of a response: text, and also the bytes if they are not valid UTF-8. */
type Delivered = {
  output: string
  outputBytes: Uint8Array | undefined
  /** What was missing or unexpected in the response. */
  notes: readonly string[]
  txHash: Hex | undefined
}
export type Purchased = Delivered & { reservation: Reservation | undefined; paid?: Paid }

/**
 * Buys one run of a paid agent.
 *
 * 1. Ask. The seller sends its requirements and a challenge.
 * 2. Guard. Sign nothing unless the requirements equal the listing and fit order and budget (D33).
 * 3. Sign, store the reservation, send. This order ensures that every possible charge is on record.
 * 4. Take the result. After a lost connection, ask again with the same authorization, never with a second one (D32).
 *
 * @throws MarketError; PeerError if the seller answers with an error. A signed reservation stays open until it is
 * resolved.
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
 * Fetches a paid result after the connection was lost. Works after a restart of either side.
 *
 * If the seller never saw the payment, sends the same payment again. An authorization can be spent only once, so asking
 * again is safe.
 */
async function recoverResult(
  reservation: Reservation,
  call: Call,
  seller: StreamPeer,
  deps: Pick<PurchaseDeps, 'clock' | 'logger' | 'streams'>,
  signal: AbortSignal,
): Promise<ReceivedResponse> {
  for (let turn = 1; ; turn++) {
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
    await pause(doubledMs(turn, BACKOFF), signal)
    signal.throwIfAborted()
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
    // `PAYMENT_NONCE_USED` means that an earlier copy arrived, so there is a result to ask for.
    if (error instanceof PeerError && isLastWord(error) && error.code !== 'PAYMENT_NONCE_USED') throw error
    return undefined
  }
}

/** Runs the whole exchange. Replaces a dead stream as long as nothing was signed. */
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
 * Returns true if this answer is final for the payment.
 *
 * A failed run voids its payment. Its `retryable` flag means that a new purchase may succeed. Retry only on unknown
 * errors. An unreadable answer says nothing about the payment.
 */
export function isLastWord(error: PeerError): boolean {
  if (error instanceof UnreadableAnswer) return false
  return !error.retryable || (error.code === 'EXECUTION_FAILED' && !error.isForeign)
}

/**
 * Returns true if asking again with this payment cannot help, or if this node refused.
 *
 * `PAYMENT_NONCE_USED` means that there is a result to ask for. `PAYMENT_NONCE_MISMATCH` means that the seller forgot
 * its challenge, after a restart or because it had too many. It accepts the same payment without a challenge.
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

/** Lists everything unexpected in the response to a payment. */
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

/** Decodes the result. The body is the seller's data and is treated as text (T10). */
export function readResponse({ body, tx_hash, oddities }: ReceivedResponse): Delivered {
  const bytes = Buffer.from(body, 'base64')
  return {
    output: bytes.toString('utf8'),
    outputBytes: isUtf8(bytes) ? undefined : bytes,
    notes: oddities,
    txHash: tx_hash === '' ? undefined : tx_hash,
  }
}

/** Our ids are plain. The original node names its agents by a DID, or by a peer id and a DID. */
export function formOf(agentId: string): BodyForm {
  return { wrapped: agentId.includes('did:') }
}
