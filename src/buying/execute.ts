import { createHash, randomUUID } from 'node:crypto'
import type { Catalog } from '../listings/catalog.ts'
import { MarketError } from '../listings/market-error.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { type Caller, OPERATOR } from '../schema/caller.ts'
import type { ChannelWish } from '../schema/channel.ts'
import type { OnProgress } from '../schema/execution.ts'
import type { Listing } from '../schema/listing.ts'
import type { IdempotencyKeys, KeyedRequest } from '../store/idempotency.ts'
import { type BoughtFor, wishOf } from '../store/order-row.ts'
import { type Approvals, approvalRequired } from './approvals.ts'
import type { Budget } from './budget.ts'
import { type AgainDeps, executeAgain } from './execute-again.ts'
import { Flight, watchOf } from './flights.ts'
import { checkTask, permittedPrice } from './guard.ts'
import { keyedRequest, once } from './keyed.ts'
import type { Orders } from './orders.ts'
import type { RunnableOrder } from './purchase.ts'
import { type RunOrderDeps, runOrder } from './run-order.ts'
import { untilShown } from './until-shown.ts'

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
  /** True if the answer has to name the settlement transaction. Default: the option of this node (D46). */
  awaitsSettlement?: boolean | undefined
  /** Default: the rule of this node. */
  channel?: ChannelWish | undefined
  /** Receives the status, and the agent's output while it works. */
  onProgress?: OnProgress
}

export type ExecuteDeps = AgainDeps &
  RunOrderDeps & {
    catalog: Pick<Catalog, 'resolve'>
    keys: Pick<IdempotencyKeys, 'find' | 'now'>
    orders: Pick<Orders, 'place'>
    approvals: Pick<Approvals, 'hold'>
    budget: Pick<Budget, 'perCall'>
    newId(): string
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
  const price = permittedPrice(listing, request.maxPriceAtomic, deps.budget.perCall())
  const order: RunnableOrder = { ...newOrder(request, listing, price, deps), tokenId: caller.tokenId }
  const held = await deps.approvals.hold(order, listing, keyed)
  if (held !== undefined) throw approvalRequired(held)
  const watch = request.onProgress && watchOf(order, request.onProgress)
  const flight = new Flight(
    order,
    async (attendance) => {
      if (keyed !== undefined) await deps.orders.place(order, { request: keyed, kind: 'execute' })
      const { cancel = NEVER, hops, awaitsSettlement = deps.awaitsSettlement } = request
      const call = { signal: cancel, attendance, watch, hops, runId: runIdOf(keyed), awaitsSettlement }
      const result = await runOrder(order, listing, call, deps)
      return awaitsSettlement === true ? untilShown(result, deps, request.signal) : result
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
  throw new MarketError('ORDER_CANCELLED', 'the caller left before the payment was signed; nothing was paid')
}

/** Composes the order, which executes at once. */
function newOrder(
  { input: task, boughtFor, channel }: ExecuteRequest,
  listing: Listing,
  price: bigint,
  deps: ExecuteDeps,
) {
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
    correlationId: randomUUID(),
    createdAt: now,
    updatedAt: now,
    ...wishOf(channel),
    ...(boughtFor && { boughtFor }),
  } as const
}
