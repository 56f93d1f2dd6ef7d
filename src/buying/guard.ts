import type { Trading } from '../ledger/trading.ts'
import type { Clock } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import { MarketError } from '../listings/market-error.ts'
import { peerNamed } from '../p2p/did.ts'
import { channelCallId } from '../payments/channels/call-id.ts'
import { differenceFromListing } from '../payments/requirements.ts'
import { RUN_MARGIN_SECONDS } from '../payments/verify.ts'
import { backdatedSeconds, type Wallet } from '../payments/wallet.ts'
import type { StreamPeer } from '../protocols/streams.ts'
import type { PaymentDemand } from '../protocols/x402/client.ts'
import { usdc } from '../schema/amount.ts'
import { CHANNEL_SCHEME, type ChannelConfig, type ChannelTerms } from '../schema/channel.ts'
import {
  PAYMENT_WINDOW_SECONDS,
  PAYMENT_WINDOW_SECONDS_MAX,
  RUN_SECONDS_MAX,
  SETTLEMENT_SECONDS,
  TASK_BYTES_MAX,
} from '../schema/limits.ts'
import type { Listing } from '../schema/listing.ts'
import { networkText } from '../schema/network-kind.ts'
import { type PaymentEnvelope, type PaymentRequirements, saysSettlesFirst } from '../schema/payment.ts'
import type { Pricing } from '../schema/pricing.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Order, Purchases, Reservation } from '../store/purchases.ts'
import type { Standing } from '../store/reserve.ts'
import { type Budget, overBudget } from './budget.ts'
import { takeNonce } from './signed-nonces.ts'
import type { WalletFunds } from './wallet-checks.ts'

/** What is offered for sale: a listing, or what a seller over HTTP asks now. */
export type Offered = Pick<Listing, 'id' | 'name' | 'seller_id' | 'price' | 'pricing' | 'local' | 'network' | 'buyable'>

/** Why this node cannot buy an agent: it is sold on another network (D37). Own agents run here, unpaid. */
export function foreignNetwork({ name, network, local, buyable }: Offered): string | undefined {
  if (local || buyable) return undefined
  return `${name} is sold on ${networkText(network)}, and this node buys only on its own network`
}

/** @throws MarketError NETWORK_MISMATCH */
export function checkBuyable(listing: Offered): void {
  const reason = foreignNetwork(listing)
  if (reason === undefined) return
  const fix = `to buy it, run a node with --network ${listing.network}`
  throw new MarketError('NETWORK_MISMATCH', `${reason}: nothing was signed; ${fix}`)
}

/** @throws MarketError for a task that does not fit a frame */
export function checkTask(task: string): void {
  if (Buffer.byteLength(task) <= TASK_BYTES_MAX) return
  throw new MarketError('INPUT_TOO_LARGE', `the task is longer than ${TASK_BYTES_MAX} bytes`)
}

/**
 * Returns the highest price that may be paid. Refuses a listing above it, or of another network, before asking the
 * seller.
 *
 * @throws MarketError OVER_PRICE, NETWORK_MISMATCH
 */
export function permittedPrice(listing: Offered, wanted: bigint | undefined, nodeMax: bigint): bigint {
  checkBuyable(listing)
  const price = wanted === undefined || wanted > nodeMax ? nodeMax : wanted
  if (listing.local || listing.price <= price) return price
  const allowed =
    price === wanted ? `this call allows ${usdc(price)}` : `this node allows ${usdc(price)} (stoa budget --per-call)`
  const costs = `${listing.name} costs ${listing.pricing === undefined ? '' : 'up to '}${usdc(listing.price)}`
  throw new MarketError('OVER_PRICE', `${costs}, and ${allowed}: nothing was signed`)
}

/** What the buyer knows about the agent from its signed listing. */
export type Terms = {
  agentId: string
  /** The seller's own name for the agent, if it differs from the id. */
  resource?: string
  seller: StreamPeer
  listed: { amount: bigint; network: string; asset: string; payTo: string }
  /** The agent's time limit, if the listing states it. */
  timeoutSeconds?: number | undefined
  /** Length of the chain of agents that buy for one another, including this call. */
  hops?: number | undefined
  /** What the seller wants of payment channels. Undefined: it takes none. */
  channel?: ChannelTerms | undefined
  /** Prices by use, for calls on channels. */
  pricing?: Pricing | undefined
  /** True if its seller shows output while the agent works. */
  showsOutput?: boolean | undefined
  /** True if no call can be paid for by itself. */
  isOnChannelsOnly?: boolean | undefined
}

/** The most that a call on a channel costs. */
export function channelPrice({ pricing, listed }: Pick<Terms, 'pricing' | 'listed'>): bigint {
  return pricing?.max ?? listed.amount
}

export type GuardDeps = {
  clock: Clock
  purchases: Purchases
  wallet: Wallet
  budget: Pick<Budget, 'day' | 'limitsFor' | 'approvalFor'>
  /** Longest window that this node signs, even if a seller asks for more. */
  maxWindowSeconds?: number | undefined
  /** True if this node may pay a seller that settles before its agent runs. Default: true (D45). */
  allowSettleFirst?: boolean | undefined
  /** Undefined if no RPC is configured, so the balance is unknown. */
  funds?: WalletFunds | undefined
  /** Undefined in tests: trading never stops. */
  trading?: Pick<Trading, 'check'> | undefined
}

/**
 * The buyer's guard: the only place where this node signs payments (D33).
 *
 * Signs once per order, even if the seller asks again. Signs only what listing, order and budget allow. Stores the
 * reservation on disk before the signature leaves.
 */
export class Guard {
  readonly #order: Order
  readonly #terms: Terms
  readonly #deps: GuardDeps
  reservation: Reservation | undefined
  /** A call on a channel that the seller has refused. What is signed next takes its place. */
  instead: Hex | undefined

  constructor(order: Order, terms: Terms, deps: GuardDeps) {
    this.#order = order
    this.#terms = terms
    this.#deps = deps
  }

  /**
   * Checks what the seller asks, signs it, and stores the reservation.
   *
   * @param onSigning called right before the signature
   * @throws MarketError, StoreError
   */
  async sign(
    { requirements, nonce: challengeNonce, sellerDid }: PaymentDemand,
    onSigning: (() => void) | undefined,
    signal: AbortSignal,
  ): Promise<{ reservation: Reservation; envelope: PaymentEnvelope }> {
    this.#checkName(sellerDid)
    this.#check(requirements)
    // A second challenge for the same order gets the same authorization.
    if (this.reservation !== undefined) {
      return { reservation: this.reservation, envelope: { ...this.reservation.envelope, server_nonce: challengeNonce } }
    }
    const { clock, wallet, funds, trading } = this.#deps
    await funds?.check(requirements.amount, signal)
    // Do not sign for an order that was canceled during the checks above.
    signal.throwIfAborted()
    trading?.check()
    takeNonce(this.#deps.purchases, challengeNonce)
    onSigning?.()
    const now = clock.now()
    const windowSeconds = this.#window(requirements)
    const terms = { serverNonce: challengeNonce, authorizationNonce: challengeNonce, windowSeconds }
    const { paymentId, envelope } = wallet.authorize(requirements, terms, now)
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
      settlesFirst: settlesFirst(requirements, windowSeconds),
    }
    await this.#reserve(reservation)
    faultPoint('buyer:reserved')
    this.reservation = reservation
    return { reservation, envelope }
  }

  /**
   * Checks a call that a channel is to pay, which costs the listed price or `max` at most. The seller is not asked first.
   *
   * @returns the reservation. The channel stores it by `store` in the turn in which it signs, before the signature
   * @throws MarketError
   */
  onChannel({ id, config }: { id: Hex; config: ChannelConfig }, correlationId: string) {
    const { clock, wallet, trading } = this.#deps
    const { listed, timeoutSeconds = RUN_SECONDS_MAX, seller, agentId, pricing } = this.#terms
    const { network } = listed
    const amount = channelPrice(this.#terms)
    if (amount > listed.amount) {
      const most = `a call on a channel costs up to ${usdc(amount)}, more than the price that its listing names`
      throw new MarketError('LISTING_MISMATCH', `${most}: ${usdc(listed.amount)}; nothing was signed`)
    }
    const maxTimeoutSeconds = timeoutSeconds + SETTLEMENT_SECONDS
    const parties = { asset: config.token as Hex, payTo: config.receiver as Hex }
    const requirements: PaymentRequirements = {
      scheme: 'exact',
      network: wallet.asset.network,
      amount,
      ...parties,
      maxTimeoutSeconds,
    }
    this.#check(requirements, { ...listed, amount })
    trading?.check()
    const [x402_version, server_nonce, payer] = [2, 'preemptive', wallet.address] as const
    const reservation: Reservation = {
      paymentId: channelCallId(id, correlationId),
      ...{ orderId: this.#order.id, agentId, sellerId: seller.peerId, requirements, amount, channel: id },
      ...(pricing !== undefined && { metered: { pricing } }),
      envelope: { x402_version, scheme: CHANNEL_SCHEME, network, server_nonce, payer },
      validBeforeSeconds: Math.ceil(clock.now() / 1000) + maxTimeoutSeconds,
    }
    const store = () => this.#reserve(reservation)
    return { reservation, store }
  }

  /** Stores a reservation if budget, approvals and order allow it. @throws MarketError, StoreError */
  async #reserve(reservation: Reservation): Promise<void> {
    const { budget, purchases } = this.#deps
    const day = budget.day()
    const limits = (standing: Standing) => budget.limitsFor(this.#order, reservation, standing)
    const approve = (standing: Standing) => {
      const reason = budget.approvalFor(reservation, standing)
      if (reason !== undefined) throw new MarketError('APPROVAL_REQUIRED', `${reason}: nothing was signed`)
    }
    const { instead } = this
    const outcome = await purchases.reserve(this.#order, reservation, { day, limits, approve, instead })
    if (typeof outcome === 'object') throw overBudget(reservation.amount, outcome, day)
    if (outcome === 'again')
      throw new MarketError('SELLER_FAILED', `order ${this.#order.id} already has a signed payment`)
    if (outcome === 'ended') {
      throw new MarketError('ORDER_CANCELLED', `order ${this.#order.id} was canceled; nothing was signed`)
    }
  }

  /** The window in s: what the seller asks, capped by the agent's limit + 120 s and the operator's maximum (D51). */
  #window({ maxTimeoutSeconds }: PaymentRequirements): number {
    const { timeoutSeconds = Number.POSITIVE_INFINITY } = this.#terms
    const { maxWindowSeconds = PAYMENT_WINDOW_SECONDS } = this.#deps
    return Math.min(maxTimeoutSeconds, timeoutSeconds + SETTLEMENT_SECONDS, maxWindowSeconds)
  }

  /** Refuses a seller that calls itself another peer than the peer of the listing. */
  #checkName(sellerDid: string): void {
    const named = peerNamed(sellerDid)
    if (named === undefined || named === this.#terms.seller.peerId) return
    throw new MarketError('LISTING_MISMATCH', `the seller calls itself ${sellerDid}, another peer: nothing was signed`)
  }

  /** Refuses to sign anything that differs from the listing or the network (T2). */
  #check(requirements: PaymentRequirements, listed = this.#terms.listed): void {
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
    if (requirements.maxTimeoutSeconds > PAYMENT_WINDOW_SECONDS_MAX) {
      const window = `a payment valid for ${requirements.maxTimeoutSeconds} s, the limit is ${PAYMENT_WINDOW_SECONDS_MAX} s`
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
 * Returns true if the seller settles before its agent runs. Either the seller says so, or the payment would expire
 * before the longest run ends (D51). A seller's `maxTimeoutSeconds` is its agent's limit plus the time for settlement
 * (D28).
 */
function settlesFirst(requirements: PaymentRequirements, windowSeconds: number): boolean {
  const runSeconds = requirements.maxTimeoutSeconds - SETTLEMENT_SECONDS
  const leftSeconds = windowSeconds - backdatedSeconds(windowSeconds)
  return saysSettlesFirst(requirements) || leftSeconds < runSeconds + RUN_MARGIN_SECONDS
}

export function settlesFirstRefused(): MarketError {
  const how = 'buyer.allow_settle_first of this node forbids that'
  return new MarketError('SETTLES_FIRST', `the seller settles before its agent runs, and ${how}: nothing was signed`)
}
