import type { Changes } from '../lib/changes.ts'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Catalog } from '../listings/catalog.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Replica } from '../listings/replica.ts'
import type { Caller } from '../schema/caller.ts'
import type { ChannelWish } from '../schema/channel.ts'
import type { WebWish } from '../schema/web-purchase.ts'
import type { IdempotencyKeys } from '../store/idempotency.ts'
import { type Order, wishOf } from '../store/order-row.ts'
import type { OrderStore, OrdersQuery } from '../store/orders.ts'
import type { Payees } from '../store/payees.ts'
import type { Purchases } from '../store/purchases.ts'
import type { Approvals } from './approvals.ts'
import type { Budget } from './budget.ts'
import type { Recovery } from './recovery.ts'
import type { ActiveOrders, RunOrderDeps } from './run-order.ts'
import type { WebSellers } from './web/web-sellers.ts'

export type NewOrder = {
  agentId: string
  /** Highest price to pay, in atomic units. */
  price: bigint
  task?: string | undefined
  /** Default: the rule of this node. */
  channel?: ChannelWish | undefined
  /** The principal that pays. Default: the operator. */
  caller?: Caller | undefined
  /** Requests with the same key and content are done once (D38). */
  idempotencyKey?: string | undefined
}
/** An order at an x402 seller over HTTP. */
export type NewWebOrder = Pick<NewOrder, 'price' | 'caller' | 'idempotencyKey'> & WebWish
/** `tokenId`: the token of the principal that pays. Undefined: the operator. */
export type WantedOrder = Omit<NewOrder, 'caller' | 'idempotencyKey'> &
  Pick<Order, 'web' | 'agentName' | 'sellerName'> & { tokenId: string | undefined }

/** An order that is not stored yet. */
export function pendingOrder(
  id: string,
  { agentId, price, task, channel, tokenId, web, agentName, sellerName }: WantedOrder,
  createdAt: UnixMs,
): Order {
  const blank = { sellerId: undefined, output: undefined, error: undefined, correlationId: undefined }
  const times = { createdAt, updatedAt: createdAt }
  const atUrl = web && { web, agentName, sellerName }
  return { id, agentId, price, task, status: 'pending', ...blank, ...times, tokenId, ...wishOf(channel), ...atUrl }
}

/** `idempotencyKey` selects the order that was made with this key. */
export type OrderList = Omit<OrdersQuery, 'ownerId'>

/** Pause before looking again for an agent that is away. */
export const AWAY_MS = 200

export type OrdersDeps = {
  clock: Clock
  logger: Logger
  newId(): string
  store: OrderStore
  purchases: Purchases
  keys: Pick<IdempotencyKeys, 'find' | 'now'>
  catalog: Pick<Catalog, 'resolve'>
  /** True while an agent of this node is not on the market only because the node starts or stops. */
  isAway(agentId: string): boolean
  replica: Pick<Replica, 'onChange'>
  /** What each order needs to run. */
  running: RunOrderDeps & { web: WebSellers }
  active: ActiveOrders
  /** Reports each order that has ended or that this process has stopped working on. */
  changes: Changes
  recovery: Pick<Recovery, 'look'>
  budget: Pick<Budget, 'perCall'>
  approvals: Pick<Approvals, 'hold'>
  payees: Payees
}

export function canceled(id: string): MarketError {
  return new MarketError('ORDER_CANCELLED', `order ${id} was canceled`)
}
