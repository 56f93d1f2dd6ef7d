import type { UnixMs } from '../lib/clock.ts'
import type { Page } from '../schema/page.ts'
import type { Database } from './database.ts'
import { bindKey, freeKey, type KeyedRequest, type KeyTarget } from './idempotency.ts'
import { beginningOf, givenTerms, isSearch, type LookBackPage, type LookBackQuery, lookBack } from './look-back.ts'
import { isFinal, type Order, type OrderRow, type OrderStatus, putOrder, toOrder } from './order-row.ts'
import { readPage } from './read-page.ts'
import type { RowOf } from './row.ts'
import { runOnSqlite } from './sqlite-query.ts'

export type OrdersQuery = {
  status?: OrderStatus | undefined
  agentId?: string | undefined
  /** Only orders of this token. */
  ownerId?: string | undefined
  /** The key of the request that created the order. */
  idempotencyKey?: string | undefined
  limit: number
  cursor?: string | undefined
} & LookBackQuery
type PendingOrder = { id: string; agentId: string; workflowId: string | undefined }

/** Orders from placement to start or cancellation. The ledger stores how they end: purchases.ts. */
export interface OrderStore {
  /**
   * Stores a new order with the idempotency key of its request. `full`: too many orders are open. `share`: the token
   * has too many open orders.
   *
   * @throws KeyTaken, CodedError IDEMPOTENCY_CONFLICT
   */
  place(order: Order, limits: OpenLimits, keyed?: PlacementKey | undefined): Promise<'placed' | 'full' | 'share'>
  /** Gives a pending order its task and the token of the caller. Undefined: the order is not pending or has a task. */
  giveTask(
    id: string,
    task: string,
    given: { tokenId: string | undefined; now: UnixMs; keyed?: PlacementKey | undefined },
  ): Promise<Order | undefined>
  /** pending → executing. Undefined: the order is no longer pending. */
  begin(id: string, begun: { sellerId: string; correlationId: string; now: UnixMs }): Promise<Order | undefined>
  /**
   * pending → `cancelled` at once. An executing order is marked, and ends `cancelled` unless it brings a result.
   *
   * @returns the order; an ended order is not changed
   */
  cancel(id: string, now: UnixMs): Promise<Order | undefined>
  /** Pending orders that have a task, oldest first. */
  pending(): PendingOrder[]
  /** Newest first. A page ends early if its texts are long, and a search page ends after a fixed number of rows. */
  list(query: OrdersQuery): Page<Order>
}

/** Open orders allowed in total, and per token. */
export type OpenLimits = { all: number; perToken: number }
/** The key of a request, and whether its caller waits for the order. */
export type PlacementKey = { request: KeyedRequest; kind: KeyTarget['kind'] }

const ONE = 'SELECT * FROM orders WHERE id = ?'
const GIVE_TASK = `
  UPDATE orders SET task = ?, token_id = coalesce(?, token_id), updated_at = ?
  WHERE status = 'pending' AND task IS NULL AND id = ?`
const ORDERS = {
  ...{ table: 'orders', key: 'no', agentId: 'agent_id', createdAt: 'created_at' },
  texts: [beginningOf('task'), beginningOf('output'), 'error', 'agent_name', 'seller_name', 'agent_id', 'id'],
} as const
const OPEN = `status IN ('pending', 'executing')`
const PENDING = `
  SELECT id, agent_id AS agentId, workflow_id AS workflowId FROM orders
  WHERE ${OPEN} AND status = 'pending' AND task IS NOT NULL ORDER BY no`
const FRUITLESS = `status IN ('failed', 'cancelled')`

export function createOrderStore(database: Database): OrderStore {
  const one = (id: string) => {
    const row = database.one<OrderRow>(ONE, id)
    return row && toOrder(row)
  }
  /** Updates one order and returns it if a row changed. */
  const change = (sql: string, id: string, ...values: (string | number | null)[]) =>
    database.write(() => (database.run(sql, ...values, id).changes === 1 ? one(id) : undefined))

  return {
    place: (order, limits, keyed) =>
      database.write(() => {
        if (keyed !== undefined)
          runOnSqlite(database.prepare, bindKey(keyed.request, { kind: keyed.kind, id: order.id }, order.createdAt))
        const { n } = database.one<{ n: number }>(`SELECT count(*) AS n FROM orders WHERE ${OPEN}`)!
        const refusal = n >= limits.all ? 'full' : isOverShare(database, order.tokenId, limits) ? 'share' : undefined
        if (refusal !== undefined) {
          if (keyed !== undefined) runOnSqlite(database.prepare, freeKey(keyed.request))
          return refusal
        }
        runOnSqlite(database.prepare, putOrder(order))
        return 'placed'
      }),
    giveTask: (id, task, { tokenId, now, keyed }) =>
      database.write(() => {
        if (keyed !== undefined) runOnSqlite(database.prepare, bindKey(keyed.request, { kind: keyed.kind, id }, now))
        const { changes } = database.run(GIVE_TASK, task, tokenId ?? null, now, id)
        if (changes === 1) return one(id)
        if (keyed !== undefined) runOnSqlite(database.prepare, freeKey(keyed.request))
        return undefined
      }),
    begin: (id, { sellerId, correlationId, now }) =>
      change(
        `UPDATE orders SET status = 'executing', seller_id = ?, correlation_id = ?, started_at = ?, updated_at = ?
           WHERE status = 'pending' AND id = ?`,
        id,
        sellerId,
        correlationId,
        now,
        now,
      ),
    cancel: (id, now) =>
      database.write(() => {
        const order = one(id)
        if (order === undefined || isFinal(order.status)) return order
        database
          .prepare(`
            UPDATE orders SET cancel_requested_at = coalesce(cancel_requested_at, ?), updated_at = ?,
              status = iif(status = 'pending', 'cancelled', status)
            WHERE id = ?`)
          .run(now, now, id)
        return one(id)
      }),
    pending: () =>
      database.all<RowOf<PendingOrder>>(PENDING).map((row) => ({ ...row, workflowId: row.workflowId ?? undefined })),
    list({ limit, ...query }) {
      const before = query.cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(query.cursor)
      const sought = isSearch(query) ? runOnSqlite(database.prepare, lookBack(ORDERS, query, before)) : undefined
      const { where, values } = conditions(query, sought)
      const rows = database
        .prepare(`SELECT * FROM orders ${where} ORDER BY no DESC`)
        .iterate(...values) as Iterable<unknown>
      const page = readPage(rows as Iterable<OrderRow>, limit, (row) => {
        const length = (row.task?.length ?? 0) + (row.output?.length ?? 0) + (row.output_bytes?.length ?? 0)
        return { item: toOrder(row), no: row.no, length }
      })
      return { items: page.items, next: page.next ?? sought?.floor?.toString() }
    },
  }
}

/** Adds to each status the condition of its index, worded like the index, so that SQLite uses it. */
function conditions(
  { status, agentId, idempotencyKey, ownerId, cursor }: Omit<OrdersQuery, 'limit'>,
  sought: LookBackPage | undefined,
) {
  const found = givenTerms([
    ['status = ?', status],
    ['agent_id = ?', agentId],
    ['token_id = ?', ownerId],
    [`id IN (SELECT target FROM idempotency_keys WHERE key = ? AND kind <> 'workflow')`, idempotencyKey],
    ['no < ?', cursor === undefined ? undefined : Number(cursor)],
  ])
  const terms = [...(sought?.terms ?? []), ...found.terms]
  if (status === 'pending' || status === 'executing') terms.push(OPEN)
  if (status === 'failed' || status === 'cancelled') terms.push(FRUITLESS)
  const where = terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`
  return { where, values: [...(sought?.values ?? []), ...found.values] }
}

function isOverShare(database: Database, tokenId: string | undefined, { perToken }: OpenLimits): boolean {
  if (tokenId === undefined) return false
  const count = database.prepare(`
    SELECT count(*) AS n FROM orders WHERE status IN ('pending', 'executing') AND token_id IS NOT NULL AND token_id = ?`)
  return (count.get(tokenId) as { n: number }).n >= perToken
}
