import type { UnixMs } from '../lib/clock.ts'
import type { Page } from '../schema/page.ts'
import { bindKey, freeKey, type KeyedRequest, type KeyTarget } from './idempotency.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { beginningOf, givenTerms, isSearch, type LookBackPage, type LookBackQuery, lookBack } from './look-back.ts'
import { type Order, type OrderError, type OrderRow, type OrderStatus, putOrder, toOrder } from './order-row.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { all, nothing, one, type Query, run, steps, together } from './query.ts'
import { type RowLength, readLongPage } from './read-page.ts'
import type { RowOf } from './row.ts'

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
   * has too many open orders. Orders that are placed at the same instant do not see each other, so a limit may be
   * exceeded by one group of changes of each process. That is harmless: the limits bound the work of the ledger, and no
   * amount. A lock would let all orders of all processes wait for each other.
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
  /** pending → failed. Undefined: the order is no longer pending, such as when another process has begun it. */
  fail(id: string, error: OrderError, now: UnixMs): Promise<Order | undefined>
  /**
   * pending → `cancelled` at once. An executing order is marked, and ends `cancelled` unless it brings a result.
   *
   * @returns the order; an ended order is not changed
   */
  cancel(id: string, now: UnixMs): Promise<Order | undefined>
  /** Pending orders of this process that have a task, oldest first. */
  pending(): Promise<PendingOrder[]>
  /** Who works on an order, or will. Undefined: a process that has ended, or nobody. */
  workerOf(id: string): Promise<'here' | 'elsewhere' | undefined>
  /** Asks whoever works on an order, in another process, to look at it. */
  askWorker(id: string): Promise<void>
  /** Newest first. A page ends early if its texts are long, and a search page ends after a fixed number of rows. */
  list(query: OrdersQuery): Promise<Page<Order>>
}

/** Open orders allowed in total, and per token. */
export type OpenLimits = { all: number; perToken: number }
/** The key of a request, and whether its caller waits for the order. */
export type PlacementKey = { request: KeyedRequest; kind: KeyTarget['kind'] }

const ONE = 'SELECT * FROM orders WHERE id = ?'
const GIVE_TASK = `
  UPDATE orders SET task = ?, token_id = coalesce(?, token_id), updated_at = ?
  WHERE status = 'pending' AND task IS NULL AND id = ? RETURNING *`
const BEGIN = `
  UPDATE orders SET status = 'executing', seller_id = ?, correlation_id = ?, owner = ?, started_at = ?, updated_at = ?
  WHERE status = 'pending' AND id = ? RETURNING *`
const FAIL = `
  UPDATE orders SET status = 'failed', error = ?, updated_at = ? WHERE status = 'pending' AND id = ? RETURNING *`
const CANCEL = `
  UPDATE orders SET cancel_requested_at = coalesce(cancel_requested_at, ?), updated_at = ?,
    status = CASE WHEN status = 'pending' THEN 'cancelled' ELSE status END
  WHERE status IN ('pending', 'executing') AND id = ?`
const ORDERS = {
  ...{ table: 'orders', key: 'no', agentId: 'agent_id', createdAt: 'created_at' },
  texts: [beginningOf('task'), beginningOf('output'), 'error', 'agent_name', 'seller_name', 'agent_id', 'id'],
} as const
const OPEN = `status IN ('pending', 'executing')`
const PENDING = `
  SELECT id, agent_id AS agentId, workflow_id AS workflowId FROM orders
  WHERE ${OPEN} AND status = 'pending' AND task IS NOT NULL AND owner = ? ORDER BY no`
const WORKER = `
  SELECT CASE WHEN owner = ? THEN 'here' WHEN NOT ${LEFT_BEHIND} THEN 'elsewhere' END AS worker FROM orders WHERE id = ?`
const FRUITLESS = `status IN ('failed', 'cancelled')`
const OPEN_COUNT = `SELECT count(*) AS n FROM orders WHERE ${OPEN}`
const OWN_COUNT = `SELECT count(*) AS n FROM orders WHERE ${OPEN} AND token_id IS NOT NULL AND token_id = ?`
const LENGTH = `
  coalesce(octet_length(task), 0) + coalesce(octet_length(output), 0) + coalesce(octet_length(output_bytes), 0)
  + coalesce(octet_length(web), 0)`

export function createOrderStore(database: LedgerDatabase): OrderStore {
  const { process } = database
  return {
    place: (order, limits, keyed) => database.commit(place(order, limits, { process, keyed }), noted(order.id)),
    giveTask: (id, task, given) => database.commit(giveTask(id, task, given), noted(id), { record: 'work', id }),
    begin: (id, { sellerId, correlationId, now }) =>
      database.commit(oneOrder(BEGIN, sellerId, correlationId, process, now, now, id), noted(id)),
    fail: (id, error, now) => database.commit(oneOrder(FAIL, JSON.stringify(error), now, id), noted(id)),
    cancel: (id, now) => database.commit(cancel(id, now), noted(id), { record: 'work', id }),
    async pending() {
      const rows = await database.query(all<RowOf<PendingOrder>>(PENDING, process))
      return rows.map((row) => ({ ...row, workflowId: row.workflowId ?? undefined }))
    },
    async workerOf(id) {
      const row = await database.query(one<{ worker: 'here' | 'elsewhere' | null }>(WORKER, process, id))
      return row?.worker ?? undefined
    },
    askWorker: (id) => database.commit(nothing(undefined), { record: 'work', id }),
    list: (query) => database.query(list(query)),
  }
}

const noted = (id: string) => ({ record: 'order', id }) as const

function oneOrder(sql: string, ...values: (string | number | null)[]): Query<Order | undefined> {
  return one<OrderRow>(sql, ...values).map((row) => row && toOrder(row))
}

function place(
  order: Order,
  limits: OpenLimits,
  { process, keyed }: { process: string; keyed: PlacementKey | undefined },
): Query<'placed' | 'full' | 'share'> {
  const { id, tokenId, createdAt } = order
  const count = (sql: string, ...values: string[]) => one<{ n: number }>(sql, ...values)
  return steps(function* () {
    if (keyed !== undefined) yield* bindKey(keyed.request, { kind: keyed.kind, id }, createdAt)
    const [open, own] = yield* together(
      count(OPEN_COUNT),
      tokenId === undefined ? nothing(undefined) : count(OWN_COUNT, tokenId),
    )
    const refusal = open!.n >= limits.all ? 'full' : own !== undefined && own.n >= limits.perToken ? 'share' : undefined
    if (refusal !== undefined) {
      if (keyed !== undefined) yield* freeKey(keyed.request, id)
      return refusal
    }
    yield* putOrder(order, process)
    return 'placed'
  })
}

function giveTask(
  id: string,
  task: string,
  { tokenId, now, keyed }: Parameters<OrderStore['giveTask']>[2],
): Query<Order | undefined> {
  return steps(function* () {
    if (keyed !== undefined) yield* bindKey(keyed.request, { kind: keyed.kind, id }, now)
    const order = yield* oneOrder(GIVE_TASK, task, tokenId ?? null, now, id)
    if (order === undefined && keyed !== undefined) yield* freeKey(keyed.request, id)
    return order
  })
}

function cancel(id: string, now: UnixMs): Query<Order | undefined> {
  return together(run(CANCEL, now, now, id), oneOrder(ONE, id)).map(([, order]) => order)
}

function list({ limit, ...query }: OrdersQuery): Query<Page<Order>> {
  const before = query.cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(query.cursor)
  return steps(function* () {
    const sought = isSearch(query) ? yield* lookBack(ORDERS, query, before) : undefined
    const { where, values } = conditions(query, sought)
    const from = `FROM orders ${where} ORDER BY no DESC LIMIT ?`
    const { items, next } = yield* readLongPage(
      limit,
      (count) => all<RowLength>(`SELECT no, ${LENGTH} AS length ${from}`, ...values, count),
      (count) => all<OrderRow>(`SELECT * ${from}`, ...values, count),
    )
    return { items: items.map(toOrder), next: next ?? sought?.floor?.toString() }
  })
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
