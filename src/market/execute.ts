import type { Stream } from '@libp2p/interface'
import { assetOf } from '../payments/assets.ts'
import { callMarketplace } from '../protocols/marketplace.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer } from '../protocols/stream-pool.ts'
import { formatAmount } from '../schema/amount.ts'
import { type ExecutionPayment, type ExecutionResult, TASK_BYTES_MAX } from '../schema/api.ts'
import type { Listing } from '../schema/listing.ts'
import { MARKETPLACE_PROTOCOL } from '../schema/marketplace.ts'
import type { Order, OrderError } from '../store/purchases.ts'
import { MarketError } from './market-error.ts'
import { type PurchaseDeps, type Purchased, purchase } from './purchase.ts'
import { sessionId } from './session-id.ts'

/** How long one execution may take, however patient the caller: the longest agent, and time to settle and ask again. */
const DEADLINE_MS = 65 * 60 * 1000

export type ExecuteRequest = {
  agentId: string
  input: string
  /** The most this call may cost, atomic units. Never more than the node's own limit. */
  maxPriceAtomic?: bigint
  signal: AbortSignal
}

export type ExecuteDeps = PurchaseDeps & {
  catalog: { resolve(id: string): Listing | undefined }
  /** Runs an agent of this node, unpaid (D17). */
  runOwn(agentId: string, call: { input: string; correlationId: string; signal: AbortSignal }): Promise<string>
  openStream(peer: StreamPeer, protocol: string, signal: AbortSignal): Promise<Stream>
  /** Orders this process is working on: the recovery leaves them alone. */
  active: Set<string>
  newId(): string
  maxPrice: bigint
}

/**
 * Executes an agent: an own one here, a free one over the marketplace protocol, a paid one by buying it.
 *
 * @throws MarketError, PeerError as the seller answers, AgentError of an own agent
 */
export async function execute(request: ExecuteRequest, deps: ExecuteDeps): Promise<ExecutionResult> {
  const listing = deps.catalog.resolve(request.agentId)
  if (listing === undefined) {
    throw new MarketError(
      'UNKNOWN_AGENT',
      `no agent ${request.agentId} is known here; see GET /agents or stoa agent discover`,
    )
  }
  if (Buffer.byteLength(request.input) > TASK_BYTES_MAX) {
    throw new MarketError('INPUT_TOO_LARGE', `the task is longer than ${TASK_BYTES_MAX} bytes`)
  }
  const price = permittedPrice(listing, request, deps.maxPrice)
  const order = newOrder(listing, request.input, price, deps)
  const deadline = new Deadline(request.signal, DEADLINE_MS)
  deps.active.add(order.id)
  try {
    const bought = await perform(order, listing, request.input, deps, deadline.signal)
    const { reservation, txHash } = bought
    const paid = reservation && { paymentId: reservation.paymentId, txHash }
    const completed = { ...order, status: 'completed' as const, output: bought.output, updatedAt: deps.clock.now() }
    await deps.purchases.finish(completed, paid)
    return resultOf(completed, listing, bought)
  } catch (error) {
    throw await failed(order, error, deps, deadline)
  } finally {
    deps.active.delete(order.id)
    deadline.clear()
  }
}

async function perform(
  order: Order,
  listing: Listing,
  input: string,
  deps: ExecuteDeps,
  signal: AbortSignal,
): Promise<Purchased> {
  const call = { input, correlationId: order.correlationId!, signal }
  if (listing.local) {
    return { output: await deps.runOwn(listing.id, call), reservation: undefined, txHash: undefined }
  }
  const seller = { peerId: listing.seller_id, addrs: listing.addrs }
  if (listing.price === 0n) {
    return { output: await callFree(seller, listing.id, call, deps), reservation: undefined, txHash: undefined }
  }
  const listed = { amount: listing.price, network: listing.network, asset: listing.asset, payTo: listing.pay_to }
  return purchase(order, { agentId: listing.id, seller, listed }, input, deps, signal)
}

async function callFree(
  seller: StreamPeer,
  agentId: string,
  call: { input: string; correlationId: string; signal: AbortSignal },
  deps: ExecuteDeps,
): Promise<string> {
  const stream = await deps.openStream(seller, MARKETPLACE_PROTOCOL, call.signal)
  try {
    const output = await callMarketplace(stream, { ...call, agentId }, call.signal)
    void stream.close().catch(() => {})
    return output
  } catch (error) {
    stream.abort(error instanceof Error ? error : new Error('the call failed'))
    throw error
  }
}

/** The most that may be paid; a listing above it is refused before anyone is asked. */
function permittedPrice(listing: Listing, request: ExecuteRequest, nodeMax: bigint): bigint {
  const { maxPriceAtomic } = request
  const price = maxPriceAtomic === undefined || maxPriceAtomic > nodeMax ? nodeMax : maxPriceAtomic
  if (listing.local || listing.price <= price) return price
  const who = price === maxPriceAtomic ? 'this call allows' : 'this node allows (--max-price)'
  const costs = `${listing.name} costs ${formatAmount(listing.price, 6)} USDC`
  throw new MarketError('OVER_PRICE', `${costs}, ${who} ${formatAmount(price, 6)}`)
}

function newOrder(listing: Listing, task: string, price: bigint, deps: ExecuteDeps): Order {
  const now = deps.clock.now()
  return {
    id: deps.newId(),
    agentId: listing.id,
    sellerId: listing.seller_id,
    price,
    status: 'executing',
    task,
    output: undefined,
    error: undefined,
    correlationId: deps.newId(),
    createdAt: now,
    updatedAt: now,
  }
}

function resultOf(order: Order, listing: Listing, bought: Purchased): ExecutionResult {
  return {
    correlation_id: order.correlationId!,
    agent_id: listing.id,
    seller_id: listing.seller_id,
    output: bought.output,
    session_id: sessionId(listing.id, 'local'),
    duration_ms: order.updatedAt - order.createdAt,
    order_id: order.id,
    payment: paymentOf(bought),
  }
}

function paymentOf({ reservation, txHash }: Purchased): ExecutionPayment | null {
  if (reservation === undefined) return null
  const { network, asset, payTo } = reservation.requirements
  const decimals = assetOf(network)?.decimals ?? 0
  return {
    payment_id: reservation.paymentId,
    network,
    asset,
    amount: formatAmount(reservation.amount, decimals),
    amount_atomic: reservation.amount.toString(),
    payer: reservation.envelope.payer,
    pay_to: payTo,
    tx_hash: txHash ?? '',
    settlement: txHash === undefined ? 'pending' : 'settled',
  }
}

/** Records how an order failed, and says it to the caller in the market's own words. */
async function failed(order: Order, error: unknown, deps: ExecuteDeps, deadline: Deadline): Promise<unknown> {
  const signed = deps.purchases.reservationOf(order.id) !== undefined
  const told = tell(error, order, signed, deadline)
  const pending = told instanceof MarketError && told.code === 'RESULT_PENDING'
  // A signed purchase in doubt stays open: the recovery asks the seller until it knows.
  if (!pending) {
    const record = { ...order, status: 'failed' as const, error: orderError(told), updatedAt: deps.clock.now() }
    await deps.purchases.finish(record).catch((cause: unknown) => {
      deps.logger.error({ err: cause, order_id: order.id }, 'could not record a failed order')
    })
  }
  return told
}

function tell(error: unknown, order: Order, signed: boolean, deadline: Deadline): unknown {
  const options = { cause: error, correlationId: order.correlationId! }
  if (error instanceof PeerError) {
    error.correlationId = order.correlationId
    return error
  }
  if (error instanceof MarketError || isCoded(error, 'AgentError', 'StoreError')) return error
  if (signed) {
    const still = 'the payment is signed and the node keeps asking the seller for the result'
    return new MarketError('RESULT_PENDING', `${still}; order ${order.id}`, options)
  }
  if (deadline.passed)
    return new MarketError('DEADLINE', 'the seller did not answer in time; nothing was paid', options)
  const reason = error instanceof Error ? error.message : 'no answer'
  return new MarketError('SELLER_UNREACHABLE', `the seller cannot be reached: ${reason}; nothing was paid`, options)
}

function isCoded(error: unknown, ...names: string[]): boolean {
  return error instanceof Error && names.includes(error.name)
}

function orderError(told: unknown): OrderError {
  const code = (told as { code?: unknown }).code
  const retryable = (told as { retryable?: unknown }).retryable === true
  const message = told instanceof Error ? told.message : 'failed'
  return { code: typeof code === 'string' ? code : 'SELLER_FAILED', message, retryable }
}

/** The caller's signal and a limit of our own, in one. */
class Deadline {
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #outer: AbortSignal
  readonly #abort = () => this.#controller.abort(this.#outer.reason)
  passed = false

  constructor(outer: AbortSignal, ms: number) {
    this.#outer = outer
    if (outer.aborted) this.#abort()
    outer.addEventListener('abort', this.#abort, { once: true })
    this.#timer = setTimeout(() => {
      this.passed = true
      this.#controller.abort(new MarketError('DEADLINE', 'the seller did not answer in time'))
    }, ms)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#outer.removeEventListener('abort', this.#abort)
  }
}
