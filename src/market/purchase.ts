import type { Clock } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import type { Logger } from '../lib/logger.ts'
import { differenceFromListing } from '../payments/requirements.ts'
import type { Wallet } from '../payments/wallet.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../protocols/stream-pool.ts'
import { askX402Result, type Call, callX402, callX402Preemptively, type Pay } from '../protocols/x402/client.ts'
import { formatAmount, PRICE_DECIMALS } from '../schema/amount.ts'
import type { PaymentRequirements } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { X402Message } from '../schema/x402.ts'
import type { Order, Purchases, Reservation } from '../store/purchases.ts'
import { MarketError } from './market-error.ts'

/** The widest window that is ever signed: the longest time limit an agent may have, and time to settle. */
const WINDOW_SECONDS_MAX = 3600 + 120
const BACKOFF_MS = [200, 500, 1_000, 2_000, 5_000]
/** A payment is sent again only while the seller has time to run and settle it. */
const RESEND_MARGIN_SECONDS = 15

export type PurchaseDeps = {
  clock: Clock
  logger: Logger
  purchases: Purchases
  wallet: Wallet
  streams: StreamPool
  callerDid: string
  dailyBudget: bigint
}

/** What the buyer knows of the agent, from its signed listing, and the most it will pay. */
export type Terms = {
  agentId: string
  seller: StreamPeer
  listed: { amount: bigint; network: string; asset: string; payTo: string }
}

export type Purchased = { output: string; reservation: Reservation | undefined; txHash: Hex | undefined }

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
  signal: AbortSignal,
): Promise<Purchased> {
  const call: Call = {
    correlationId: order.correlationId ?? order.id,
    resource: terms.agentId,
    task,
    callerDid: deps.callerDid,
  }
  const signing = new Signing(order, terms, deps)
  const pay: Pay = async (requirements, challengeNonce) => signing.pay(requirements, challengeNonce)
  let response: X402Message<'x402.response'>
  try {
    response = await firstCall(terms.seller, call, pay, signing, deps, signal)
  } catch (error) {
    const { reservation } = signing
    if (reservation === undefined || isFinal(error)) throw error
    deps.logger.warn({ err: error, order_id: order.id }, 'a paid call was cut off; asking for its result')
    response = await recoverResult(reservation, call, terms.seller, deps, signal)
  }
  faultPoint('buyer:answered')
  return received(response, signing.reservation, deps)
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
): Promise<X402Message<'x402.response'>> {
  for (let turn = 0; ; turn++) {
    try {
      return await onStream(seller, deps.streams, signal, (stream) =>
        askX402Result(stream, call, reservation.envelope, signal),
      )
    } catch (error) {
      signal.throwIfAborted()
      const unseen = error instanceof PeerError && error.code === 'PAYMENT_REQUIRED'
      if (error instanceof PeerError && !error.retryable && !unseen) throw error
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
): Promise<X402Message<'x402.response'> | undefined> {
  try {
    return await onStream(seller, deps.streams, signal, (stream) =>
      callX402Preemptively(stream, call, reservation.envelope, signal),
    )
  } catch (error) {
    signal.throwIfAborted()
    // "used": an earlier copy got through after all, so there is a result to ask for.
    if (error instanceof PeerError && !error.retryable && error.code !== 'PAYMENT_NONCE_USED') throw error
    return undefined
  }
}

/** Signs once for one order, whatever the seller asks afterwards. */
class Signing {
  readonly #order: Order
  readonly #terms: Terms
  readonly #deps: PurchaseDeps
  reservation: Reservation | undefined

  constructor(order: Order, terms: Terms, deps: PurchaseDeps) {
    this.#order = order
    this.#terms = terms
    this.#deps = deps
  }

  async pay(requirements: PaymentRequirements, challengeNonce: Hex) {
    this.#guard(requirements)
    // A second challenge for the same order gets the same authorization.
    if (this.reservation !== undefined) return { ...this.reservation.envelope, server_nonce: challengeNonce }
    const { clock, wallet, purchases, dailyBudget } = this.#deps
    const now = clock.now()
    const nonces = { serverNonce: challengeNonce, authorizationNonce: challengeNonce }
    const { paymentId, envelope } = wallet.authorize(requirements, nonces, now)
    faultPoint('buyer:signed')
    const reservation: Reservation = {
      paymentId,
      orderId: this.#order.id,
      agentId: this.#terms.agentId,
      sellerId: this.#terms.seller.peerId,
      requirements,
      envelope,
      amount: requirements.amount,
      validBeforeSeconds: Number(envelope.payload!.authorization.validBefore),
    }
    const day = new Date(now).toISOString().slice(0, 10)
    const outcome = await purchases.reserve(this.#order, reservation, { day, amountMax: dailyBudget })
    if (outcome === 'over') throw this.#overBudget(requirements.amount, day)
    if (outcome === 'again') throw new MarketError('SELLER_FAILED', `order ${this.#order.id} was signed for before`)
    faultPoint('buyer:reserved')
    this.reservation = reservation
    return envelope
  }

  /** Nothing is signed blindly (T2). */
  #guard(requirements: PaymentRequirements): void {
    const { listed } = this.#terms
    const difference = differenceFromListing(requirements, listed)
    if (difference !== undefined)
      throw new MarketError('LISTING_MISMATCH', `the seller ${difference}: nothing was signed`)
    if (requirements.maxTimeoutSeconds > WINDOW_SECONDS_MAX) {
      const window = `a payment valid for ${requirements.maxTimeoutSeconds} s, the limit is ${WINDOW_SECONDS_MAX} s`
      throw new MarketError('LISTING_MISMATCH', `the seller asks for ${window}: nothing was signed`)
    }
    if (requirements.amount > this.#order.price) {
      throw new MarketError(
        'OVER_PRICE',
        `the seller asks for ${usdc(requirements.amount)}, more than ${usdc(this.#order.price)}`,
      )
    }
  }

  #overBudget(amount: bigint, day: string): MarketError {
    const { purchases, dailyBudget } = this.#deps
    const spent = usdc(purchases.spentOn(day))
    return new MarketError(
      'OVER_BUDGET',
      `${usdc(amount)} do not fit the daily budget: ${spent} of ${usdc(dailyBudget)} are spent or reserved on ${day} (UTC); raise --daily-budget or wait`,
    )
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
  const { streams } = deps
  const reopen = () => streams.open(seller, signal)
  const run = (stream: FramedStream) => callX402(stream, call, { pay, reopen }, signal)
  try {
    return await onStream(seller, streams, signal, run)
  } catch (error) {
    if (!(error instanceof StaleStream) || signing.reservation !== undefined) throw error
    return onStream(seller, streams, signal, run, { fresh: true })
  }
}

/** A pooled stream that failed: its peer may have ended it before we asked. */
class StaleStream extends Error {
  override name = 'StaleStream'
}

export async function onStream<T>(
  seller: StreamPeer,
  streams: StreamPool,
  signal: AbortSignal,
  use: (stream: FramedStream) => Promise<T>,
  options: { fresh?: boolean } = {},
): Promise<T> {
  const taken = options.fresh
    ? { stream: await streams.open(seller, signal), reused: false }
    : await streams.take(seller, signal)
  try {
    const value = await use(taken.stream)
    streams.give(seller, taken.stream)
    return value
  } catch (error) {
    if (error instanceof PeerError) {
      streams.give(seller, taken.stream)
      throw error
    }
    taken.stream.abort(error instanceof Error ? error : new Error('the call failed'))
    if (taken.reused && !signal.aborted && !(error instanceof MarketError)) {
      throw new StaleStream('a stream that was kept open had ended', { cause: error })
    }
    throw error
  }
}

/** An answer after which asking again cannot help, or a refusal of our own. */
function isFinal(error: unknown): boolean {
  if (error instanceof PeerError) return !error.retryable && error.code !== 'PAYMENT_NONCE_USED'
  return error instanceof MarketError
}

function maySend(reservation: Reservation, clock: Clock): boolean {
  return reservation.validBeforeSeconds - clock.now() / 1000 > RESEND_MARGIN_SECONDS
}

function received(
  response: X402Message<'x402.response'>,
  reservation: Reservation | undefined,
  deps: PurchaseDeps,
): Purchased {
  if (reservation !== undefined && response.payment_id.toLowerCase() !== reservation.paymentId) {
    deps.logger.warn(
      { order_id: reservation.orderId, payment_id: response.payment_id },
      'the seller names another payment',
    )
  }
  return { ...readResponse(response), reservation }
}

/** The result is the seller's data: text, whatever bytes it sent (T10). */
export function readResponse(response: X402Message<'x402.response'>): { output: string; txHash: Hex | undefined } {
  return {
    output: Buffer.from(response.body, 'base64').toString('utf8'),
    txHash: response.tx_hash === '' ? undefined : (response.tx_hash as Hex),
  }
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

function usdc(amount: bigint): string {
  return `${formatAmount(amount, PRICE_DECIMALS)} USDC`
}
