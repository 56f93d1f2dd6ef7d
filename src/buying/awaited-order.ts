import { createHash, randomUUID } from 'node:crypto'
import { MarketError } from '../listings/market-error.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { type Caller, OPERATOR } from '../schema/caller.ts'
import type { ChannelWish } from '../schema/channel.ts'
import type { OnProgress } from '../schema/execution.ts'
import type { Listing } from '../schema/listing.ts'
import type { KeyedRequest } from '../store/idempotency.ts'
import { type BoughtFor, wishOf } from '../store/order-row.ts'
import type { OrderStore } from '../store/orders.ts'
import { type Approvals, approvalRequired } from './approvals.ts'
import { Flight, type Flights, watchOf } from './flights.ts'
import type { Orders } from './orders.ts'
import type { RunnableOrder } from './purchase.ts'
import { type RunOrderDeps, runOrder } from './run-order.ts'
import { untilShown } from './until-shown.ts'
import type { WebSold } from './web/asked.ts'

/** How a caller waits for an order. */
export type Awaiting = {
  /** The principal that pays. Default: the operator. */
  caller?: Caller
  /** Requests with the same key and content are done once (D38). */
  idempotencyKey?: string | undefined
  /** Aborts when the caller leaves. Before the signature this cancels the order; after it the order goes on. */
  signal: AbortSignal
  /** Aborts when the caller cancels, with ORDER_CANCELLED. This also stops the seller. */
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

export type AwaitedDeps = RunOrderDeps & {
  orders: Pick<Orders, 'place'>
  orderStore: Pick<OrderStore, 'cancel'>
  approvals: Pick<Approvals, 'hold'>
  flights: Flights
  newId(): string
}

/**
 * Runs an order whose caller waits, or holds it for the operator's approval.
 *
 * @param sold a seller over HTTP is closed when the order has ended here
 * @throws MarketError, or what `runOrder` throws; KeyTaken
 */
export async function runAwaited(
  order: RunnableOrder,
  sold: Listing | WebSold,
  { request, keyed }: { request: Awaiting; keyed: KeyedRequest | undefined },
  deps: AwaitedDeps,
): Promise<ExecutionResult> {
  const close = async () => ('live' in sold ? sold.live.close() : undefined)
  try {
    const held = await deps.approvals.hold(order, sold, keyed)
    if (held !== undefined) throw approvalRequired(held)
  } catch (error) {
    await close()
    throw error
  }
  const watch = request.onProgress && watchOf(order, request.onProgress)
  const { cancel, hops, awaitsSettlement = deps.awaitsSettlement } = request
  const onCancel = () => noteCanceled(order.id, cancel?.reason, deps)
  const flight = new Flight(
    order,
    async (attendance) => {
      if (keyed !== undefined) await deps.orders.place(order, { request: keyed, kind: 'execute' })
      const call = { signal: cancel, attendance, watch, hops, runId: runIdOf(keyed), awaitsSettlement }
      const result = await runOrder(order, sold, call, deps)
      return awaitsSettlement === true ? untilShown(result, deps, request.signal) : result
    },
    () => {
      // Before the signature a cancellation ends the order at once. After it the seller has the last word.
      cancel?.addEventListener('abort', onCancel, { once: true })
      request.onSigning?.()
    },
  )
  deps.flights.set(order.id, flight)
  const end = () => {
    cancel?.removeEventListener('abort', onCancel)
    deps.flights.delete(order.id)
  }
  flight.result.then(end, end).finally(close)
  return flight.attend(request.signal)
}

/** Stores a cancellation, so that the order does not count as failed. The stop of a node is no cancellation. */
function noteCanceled(id: string, reason: unknown, { orderStore, clock, logger }: AwaitedDeps): void {
  if (!(reason instanceof MarketError) || reason.code !== 'ORDER_CANCELLED') return
  orderStore.cancel(id, clock.now()).catch((error: unknown) => {
    logger.warn({ order_id: id, err: error }, 'the cancellation of an order could not be stored')
  })
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

export function givenUp(before: ExecutionResult | 'given up'): ExecutionResult {
  if (before !== 'given up') return before
  throw new MarketError('ORDER_CANCELLED', 'the caller left before the payment was signed; nothing was paid')
}

/** Composes an order, which executes at once. */
export function executingOrder(
  { caller = OPERATOR, boughtFor, channel }: Awaiting,
  { agentId, sellerId, task, price }: { agentId: string; sellerId: string; task: string; price: bigint },
  deps: Pick<AwaitedDeps, 'clock' | 'newId'>,
): RunnableOrder {
  const now = deps.clock.now()
  return {
    id: deps.newId(),
    ...{ agentId, sellerId, price, status: 'executing', task, output: undefined, error: undefined },
    correlationId: randomUUID(),
    createdAt: now,
    updatedAt: now,
    tokenId: caller.tokenId,
    ...wishOf(channel),
    ...(boughtFor && { boughtFor }),
  }
}
