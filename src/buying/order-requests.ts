import type { Changes } from '../lib/changes.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Caller } from '../schema/caller.ts'
import type { Listing, ListingRecord } from '../schema/listing.ts'
import type { IdempotencyKeys } from '../store/idempotency.ts'
import type { OrderStore, OrdersQuery } from '../store/orders.ts'
import type { Purchases } from '../store/purchases.ts'
import type { Approvals } from './approvals.ts'
import type { RunnableOrder } from './purchase.ts'
import type { ActiveOrders } from './run-order.ts'

export type NewOrder = {
  agentId: string
  /** Highest price to pay, in atomic units. */
  price: bigint
  task?: string | undefined
  /** The principal that pays. Default: the operator. */
  caller?: Caller | undefined
  /** Requests with the same key and content are done once (D38). */
  idempotencyKey?: string | undefined
}
/** `idempotencyKey` selects the order that was made with this key. */
export type OrderList = Omit<OrdersQuery, 'ownerId'>

export type OrdersDeps = {
  clock: Clock
  logger: Logger
  newId(): string
  newCorrelationId(): string
  store: OrderStore
  purchases: Purchases
  keys: Pick<IdempotencyKeys, 'find' | 'now'>
  catalog: { resolve(id: string): Listing | undefined }
  /** Calls `listener` for each listing version that this node learns. */
  onListing(listener: (record: Pick<ListingRecord, 'id' | 'state'>) => void): () => void
  run(order: RunnableOrder, listing: Listing, signal: AbortSignal): Promise<unknown>
  active: ActiveOrders
  /** Reports each order that has ended or that this process no longer works on. */
  changes: Changes
  /** Asks the seller now what became of a signed order. */
  look(orderId: string): Promise<void>
  /** Highest price of one call on this node, in atomic units. */
  maxPrice(): bigint
  /** Holds an order that needs the operator's approval. */
  hold: Approvals['hold']
}
