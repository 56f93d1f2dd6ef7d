import type { UnixMs } from '../lib/clock.ts'
import { PAGE_LENGTH_MAX } from '../schema/limits.ts'
import type { Page } from '../schema/page.ts'
import type { Database } from './database.ts'
import { isFinal, type Order, type OrderRow, type OrderStatus, putOrder, toOrder } from './order-row.ts'

export type OrdersQuery = {
  status?: OrderStatus | undefined
  agentId?: string | undefined
  limit: number
  cursor?: string | undefined
}
export type PendingOrder = { id: string; agentId: string; workflowId: string | undefined }

/** Orders as they wait, begin and are cancelled. How they end is the ledger's: purchases.ts. */
export interface OrderStore {
  /** Stores a new order. False: as many as may be open are. */
  place(order: Order, openMax: number): Promise<boolean>
  /** Gives a pending order its task, and the token of whoever gives it. Undefined: it is not pending, or has one. */
  giveTask(id: string, task: string, given: { tokenId: string | undefined; now: UnixMs }): Promise<Order | undefined>
  /** pending → executing. Undefined: it is no longer pending. */
  begin(id: string, begun: { sellerId: string; correlationId: string; now: UnixMs }): Promise<Order | undefined>
  /**
   * pending → cancelled at once; an executing order is marked, and ends `cancelled` unless it brings a result.
   *
   * @returns the order; one that had ended before stays as it is
   */
  cancel(id: string, now: UnixMs): Promise<Order | undefined>
  /** Pending orders that have a task, the oldest first. */
  pending(): PendingOrder[]
  /** Newest first. A page also ends early when its texts are long. */
  list(query: OrdersQuery): Page<Order>
}

const ONE = 'SELECT * FROM orders WHERE id = ?'
const OPEN = `status IN ('pending', 'executing')`
const FRUITLESS = `status IN ('failed', 'cancelled')`

export function createOrderStore(database: Database): OrderStore {
  const one = (id: string) => {
    const row = database.prepare(ONE).get(id)
    return row === undefined ? undefined : toOrder(row as unknown as OrderRow)
  }
  /** Runs an update of one order and gives the order if it took place. */
  const change = (sql: string, id: string, ...values: (string | number | null)[]) =>
    database.write(() => (database.prepare(sql).run(...values, id).changes === 1 ? one(id) : undefined))

  return {
    place: (order, openMax) =>
      database.write(() => {
        const { n } = database.prepare(`SELECT count(*) AS n FROM orders WHERE ${OPEN}`).get() as { n: number }
        if (n >= openMax) return false
        putOrder(database, order)
        return true
      }),
    giveTask: (id, task, { tokenId, now }) =>
      change(
        `UPDATE orders SET task = ?, token_id = coalesce(?, token_id), updated_at = ?
           WHERE status = 'pending' AND task IS NULL AND id = ?`,
        id,
        task,
        tokenId ?? null,
        now,
      ),
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
      (
        database
          .prepare(`
            SELECT id, agent_id, workflow_id FROM orders
            WHERE ${OPEN} AND status = 'pending' AND task IS NOT NULL ORDER BY no`)
          .all() as Pick<OrderRow, 'id' | 'agent_id' | 'workflow_id'>[]
      ).map((row) => ({ id: row.id, agentId: row.agent_id, workflowId: row.workflow_id ?? undefined })),
    list({ status, agentId, limit, cursor }) {
      const { where, values } = conditions(status, agentId, cursor)
      const rows = database
        .prepare(`SELECT * FROM orders ${where} ORDER BY no DESC`)
        .iterate(...values) as Iterable<unknown>
      return readPage(rows as Iterable<OrderRow>, limit)
    },
  }
}

/** What each status can be found by stands beside it, in the words of the index. */
function conditions(status: OrderStatus | undefined, agentId: string | undefined, cursor: string | undefined) {
  const terms: string[] = []
  const values: (string | number)[] = []
  if (status === 'pending' || status === 'executing') terms.push(OPEN)
  if (status === 'failed' || status === 'cancelled') terms.push(FRUITLESS)
  if (status !== undefined) {
    terms.push('status = ?')
    values.push(status)
  }
  if (agentId !== undefined) {
    terms.push('agent_id = ?')
    values.push(agentId)
  }
  if (cursor !== undefined) {
    terms.push('no < ?')
    values.push(Number(cursor))
  }
  return { where: terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`, values }
}

function readPage(rows: Iterable<OrderRow>, limit: number): Page<Order> {
  const items: Order[] = []
  let length = 0
  let last = 0
  for (const row of rows) {
    length += (row.task?.length ?? 0) + (row.output?.length ?? 0) + (row.output_bytes?.length ?? 0)
    if (items.length === limit || (items.length > 0 && length > PAGE_LENGTH_MAX)) {
      return { items, next: String(last) }
    }
    items.push(toOrder(row))
    last = row.no
  }
  return { items, next: undefined }
}
