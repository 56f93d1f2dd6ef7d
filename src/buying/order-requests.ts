import type { Changes } from '../lib/changes.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Caller } from '../schema/caller.ts'
import type { Listing, ListingRecord } from '../schema/listing.ts'
import type { IdempotencyKeys } from '../store/idempotency.ts'
import type { OrderStore, OrdersQuery } from '../store/orders.ts'
import type { Purchases } from '../store/purchases.ts'
import type { Approvals } from './approvals.ts'
import type { ActiveOrders, RunnableOrder } from './run-order.ts'

export type NewOrder = {
  agentId: string
  /** The most to pay, atomic units. */
  price: bigint
  task?: string | undefined
  /** On whose behalf; the operator's own unless given. */
  caller?: Caller | undefined
  /** The same request with the same key is done once (D38). */
  idempotencyKey?: string | undefined
}
/** Of `idempotencyKey` the one it was made with. */
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
  /** Tells of each version of a listing that comes to be known. */
  onListing(listener: (record: Pick<ListingRecord, 'id' | 'state'>) => void): () => void
  run(order: RunnableOrder, listing: Listing, signal: AbortSignal): Promise<unknown>
  active: ActiveOrders
  /** Told of each order that has ended, or that nobody works on any more. */
  changes: Changes
  /** Asks the seller at once what became of a signed order. */
  look(orderId: string): Promise<void>
  /** The most this node pays for one call, atomic units. */
  maxPrice(): bigint
  /** Has an order wait that needs the operator's word first. */
  hold: Approvals['hold']
}
