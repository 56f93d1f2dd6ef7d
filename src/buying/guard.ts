import type { Clock } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import { MarketError } from '../listings/market-error.ts'
import { differenceFromListing, SETTLEMENT_SECONDS } from '../payments/requirements.ts'
import { RUN_MARGIN_SECONDS } from '../payments/verify.ts'
import { backdatedSeconds, type Wallet } from '../payments/wallet.ts'
import type { StreamPeer } from '../protocols/streams.ts'
import { PAYMENT_WINDOW_SECONDS } from '../schema/limits.ts'
import { networkText } from '../schema/network-kind.ts'
import { type PaymentEnvelope, type PaymentRequirements, saysSettlesFirst } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Order, Purchases, Reservation } from '../store/purchases.ts'
import { type Budget, overBudget, usdc } from './budget.ts'
import type { WalletFunds } from './wallet-funds.ts'

/** What no honest seller asks for: more than the longest time limit an agent may have, and time to settle. */
const ASKED_SECONDS_MAX = 3600 + 120

/** What the buyer knows of the agent, from its signed listing, and the most it will pay. */
export type Terms = {
  agentId: string
  /** What its seller calls the agent, where that is something else. */
  resource?: string
  seller: StreamPeer
  listed: { amount: bigint; network: string; asset: string; payTo: string }
  /** The agent's time limit, where its listing says it. */
  timeoutSeconds?: number | undefined
  /** How many agents have bought for one another, this call included. */
  hops?: number | undefined
}

export type SigningDeps = {
  clock: Clock
  purchases: Purchases
  wallet: Wallet
  budget: Pick<Budget, 'day' | 'limitsFor' | 'approvalFor'>
  /** The widest window that this node signs, whatever a seller asks for. */
  maxWindowSeconds?: number | undefined
  /** Whether a seller may be paid that settles before its agent runs; by default it may (D45). */
  allowSettleFirst?: boolean | undefined
  /** Undefined: no RPC is configured, so the balance is not known. */
  funds?: WalletFunds | undefined
  /** Whether this node may buy at all. @throws MarketError LEDGER_COPIED, StoreError */
  checkTrading?(): void
  /** Told right before the signature: from there on the purchase is taken to its end. */
  onSigning?(): void
}

/**
 * The buyer's guard: the one place where this node signs (D33).
 *
 * Signs once for one order, whatever the seller asks afterwards, and only what listing, order and budget allow; the
 * reservation is on disk before the signature leaves.
 */
export class Signing {
  readonly #order: Order
  readonly #terms: Terms
  readonly #deps: SigningDeps
  reservation: Reservation | undefined

  constructor(order: Order, terms: Terms, deps: SigningDeps) {
    this.#order = order
    this.#terms = terms
    this.#deps = deps
  }

  async pay(requirements: PaymentRequirements, challengeNonce: Hex, signal: AbortSignal): Promise<PaymentEnvelope> {
    this.#guard(requirements)
    // A second challenge for the same order gets the same authorization.
    if (this.reservation !== undefined) return { ...this.reservation.envelope, server_nonce: challengeNonce }
    const { clock, wallet, purchases, budget, funds, onSigning } = this.#deps
    await funds?.check(requirements.amount, signal)
    // What was called off meanwhile is not signed for.
    signal.throwIfAborted()
    this.#deps.checkTrading?.()
    onSigning?.()
    const now = clock.now()
    const nonces = { serverNonce: challengeNonce, authorizationNonce: challengeNonce }
    const { paymentId, envelope } = wallet.authorize(
      requirements,
      { ...nonces, windowSeconds: this.#window(requirements) },
      now,
    )
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
      settlesFirst: settlesFirst(requirements, this.#window(requirements)),
    }
    const day = budget.day()
    const limits = () => budget.limitsFor(this.#order, reservation)
    const approve = () => {
      const reason = budget.approvalFor(this.#order, reservation)
      if (reason !== undefined) throw new MarketError('APPROVAL_REQUIRED', `${reason}: nothing was signed`)
    }
    const outcome = await purchases.reserve(this.#order, reservation, { day, limits, approve })
    if (typeof outcome === 'object') throw overBudget(requirements.amount, outcome, day)
    if (outcome === 'again') throw new MarketError('SELLER_FAILED', `order ${this.#order.id} was signed for before`)
    if (outcome === 'ended') {
      throw new MarketError('ORDER_CANCELLED', `order ${this.#order.id} was cancelled; nothing was signed for it`)
    }
    faultPoint('buyer:reserved')
    this.reservation = reservation
    return envelope
  }

  /** As long as the seller asks, and no longer than the agent's limit and 120 s, or the operator's maximum (D51). */
  #window({ maxTimeoutSeconds }: PaymentRequirements): number {
    const { timeoutSeconds = Number.POSITIVE_INFINITY } = this.#terms
    const { maxWindowSeconds = PAYMENT_WINDOW_SECONDS } = this.#deps
    return Math.min(maxTimeoutSeconds, timeoutSeconds + SETTLEMENT_SECONDS, maxWindowSeconds)
  }

  /** Nothing is signed blindly (T2). */
  #guard(requirements: PaymentRequirements): void {
    const { listed } = this.#terms
    const difference = differenceFromListing(requirements, listed)
    if (difference !== undefined)
      throw new MarketError('LISTING_MISMATCH', `the seller ${difference}: nothing was signed`)
    const { network } = this.#deps.wallet.asset
    if (requirements.network !== network) {
      const asked = `the seller wants to be paid on ${networkText(requirements.network)}`
      throw new MarketError(
        'NETWORK_MISMATCH',
        `${asked}, this node pays on ${networkText(network)}: nothing was signed`,
      )
    }
    if (requirements.maxTimeoutSeconds > ASKED_SECONDS_MAX) {
      const window = `a payment valid for ${requirements.maxTimeoutSeconds} s, the limit is ${ASKED_SECONDS_MAX} s`
      throw new MarketError('LISTING_MISMATCH', `the seller asks for ${window}: nothing was signed`)
    }
    const { allowSettleFirst = true } = this.#deps
    if (!allowSettleFirst && settlesFirst(requirements, this.#window(requirements))) throw settlesFirstRefused()
    if (requirements.amount > this.#order.price) {
      throw new MarketError(
        'OVER_PRICE',
        `the seller asks for ${usdc(requirements.amount)}, more than ${usdc(this.#order.price)}`,
      )
    }
  }
}

/**
 * Whether the seller settles before its agent runs: it says so, or would not be paid after the longest run (D51). A seller's
 * `maxTimeoutSeconds` is its agent's limit and the time for settlement (D28).
 */
export function settlesFirst(requirements: PaymentRequirements, windowSeconds: number): boolean {
  const runSeconds = requirements.maxTimeoutSeconds - SETTLEMENT_SECONDS
  const leftSeconds = windowSeconds - backdatedSeconds(windowSeconds)
  return saysSettlesFirst(requirements) || leftSeconds < runSeconds + RUN_MARGIN_SECONDS
}

export function settlesFirstRefused(): MarketError {
  const how = 'buyer.allow_settle_first of this node forbids that'
  return new MarketError('SETTLES_FIRST', `the seller settles before its agent runs, and ${how}: nothing was signed`)
}
