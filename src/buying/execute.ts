import { createHash } from 'node:crypto'
import { MarketError } from '../listings/market-error.ts'
import { formatPrice, usdc } from '../schema/amount.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { type Caller, OPERATOR } from '../schema/caller.ts'
import type { OnProgress } from '../schema/execution.ts'
import { TASK_BYTES_MAX } from '../schema/limits.ts'
import type { Listing } from '../schema/listing.ts'
import type { IdempotencyKeys, KeyedRequest } from '../store/idempotency.ts'
import type { BoughtFor } from '../store/order-row.ts'
import { type Approvals, approvalRequired } from './approvals.ts'
import { checkBuyable } from './buyable.ts'
import { type AgainDeps, executeAgain } from './execute-again.ts'
import { Flight } from './flights.ts'
import { keyedRequest, once } from './keyed.ts'
import type { RunnableOrder } from './purchase.ts'
import { type RunOrderDeps, runOrder } from './run-order.ts'
import { watchOf } from './watch.ts'

export type ExecuteRequest = {
  agentId: string
  input: string
  /** Highest price of this call, in atomic units. The node's own limit also applies. */
  maxPriceAtomic?: bigint
  /** The principal that pays. Default: the operator. */
  caller?: Caller
  /** Requests with the same key and content are done once (D38). */
  idempotencyKey?: string | undefined
  /** Aborts when the caller leaves. Before the signature this cancels the order; after it the order goes on. */
  signal: AbortSignal
  /** Aborts when the caller cancels. This also stops the seller. */
  cancel?: AbortSignal
  /** The run of an own agent that needs this call. */
  boughtFor?: BoughtFor | undefined
  /** Length of the chain of agents that buy for one another, including this call. */
  hops?: number
  /** Called right before the signature. */
  onSigning?: (() => void) | undefined
  /** Receives the status, and the agent's output while it works. */
  onProgress?: OnProgress
}

export type ExecuteDeps = AgainDeps &
  RunOrderDeps & {
    catalog: { resolve(id: string): Listing | undefined }
    keys: Pick<IdempotencyKeys, 'find' | 'now'>
    /** Stores an order and the key of its request. @throws MarketError ORDERS_TOO_MANY */
    place(order: RunnableOrder, request: KeyedRequest): Promise<void>
    newId(): string
    newCorrelationId(): string
    /** Highest price of one call on this node, in atomic units. */
    maxPrice(): bigint
    /** Holds an order that needs the operator's approval. */
    hold: Approvals['hold']
  }

const NEVER = new AbortController().signal

/**
 * Executes an agent for a caller that waits. Runs an own agent here, calls a free agent over the marketplace protocol,
 * and buys a paid agent. The call is stored as an order (D18).
 *
 * @throws MarketError; PeerError if the seller answers with an error; AgentError from an own agent; CodedError
 * IDEMPOTENCY_CONFLICT
 */
export async function execute(request: ExecuteRequest, deps: ExecuteDeps): Promise<ExecutionResult> {
  const { agentId, input, maxPriceAtomic, caller = OPERATOR, signal } = request
  const keyed = keyedRequest(request.idempotencyKey, caller, ['execute', agentId, input, maxPriceAtomic], deps.keys)
  return once(
    keyed,
    deps,
    () => executeFirst(request, caller, keyed, deps),
    async ({ id }) => {
      const before = await executeAgain(id, request, deps)
      // The earlier caller left before anything was signed. This caller waits, so the call runs again.
      return before === 'given up' && !signal.aborted ? execute(request, deps) : givenUp(before)
    },
  )
}

async function executeFirst(
  request: ExecuteRequest,
  caller: Caller,
  keyed: KeyedRequest | undefined,
  deps: ExecuteDeps,
): Promise<ExecutionResult> {
  const listing = deps.catalog.resolve(request.agentId)
  if (listing === undefined) {
    throw new MarketError(
      'UNKNOWN_AGENT',
      `no agent ${request.agentId} is known here; see GET /agents or stoa agent discover`,
    )
  }
  checkTask(request.input)
  const price = permittedPrice(listing, request.maxPriceAtomic, deps.maxPrice())
  const { boughtFor } = request
  const order = { ...newOrder(listing, request.input, price, caller, deps), ...(boughtFor && { boughtFor }) }
  const held = await deps.hold(order, listing, keyed)
  if (held !== undefined) throw approvalRequired(held)
  const watch = request.onProgress && watchOf(order, request.onProgress)
  const flight = new Flight(
    order,
    async (attendance) => {
      if (keyed !== undefined) await deps.place(order, keyed)
      const call = { signal: request.cancel ?? NEVER, attendance, watch, hops: request.hops, runId: runIdOf(keyed) }
      return runOrder(order, listing, call, deps)
    },
    request.onSigning,
  )
  deps.flights.set(order.id, flight)
  const end = () => void deps.flights.delete(order.id)
  flight.result.then(end, end)
  return flight.attend(request.signal)
}

/** A repeated execution with the same key is the same run, even if the first order has ended. */
function runIdOf(keyed: KeyedRequest | undefined): string | undefined {
  if (keyed === undefined) return undefined
  const { tokenId = '', key, hash } = keyed
  return createHash('sha256')
    .update(JSON.stringify([tokenId, key]))
    .update(hash)
    .digest('hex')
}

function givenUp(before: ExecutionResult | 'given up'): ExecutionResult {
  if (before !== 'given up') return before
  throw new MarketError('ORDER_CANCELLED', 'its caller has given it up; nothing was paid')
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
export function permittedPrice(listing: Listing, wanted: bigint | undefined, nodeMax: bigint): bigint {
  checkBuyable(listing)
  const price = wanted === undefined || wanted > nodeMax ? nodeMax : wanted
  if (listing.local || listing.price <= price) return price
  const who = price === wanted ? 'this call allows' : 'this node allows (stoa budget --per-call)'
  const costs = `${listing.name} costs ${usdc(listing.price)}`
  throw new MarketError('OVER_PRICE', `${costs}, ${who} ${formatPrice(price)}: nothing was signed`)
}

function newOrder(
  listing: Listing,
  task: string,
  price: bigint,
  { tokenId }: Caller,
  deps: ExecuteDeps,
): RunnableOrder {
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
    correlationId: deps.newCorrelationId(),
    createdAt: now,
    updatedAt: now,
    tokenId,
  }
}
