import type { UnixMs } from '../lib/clock.ts'
import { PaymentEnvelope, PaymentRequirements } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Database } from './database.ts'

export type OrderStatus = 'pending' | 'executing' | 'completed' | 'failed' | 'cancelled'
export type OrderError = { code: string; message: string; retryable: boolean }

/** One purchase, paid or free (D18). `price` is the most the buyer will pay, in atomic units. */
export type Order = {
  id: string
  agentId: string
  sellerId: string | undefined
  price: bigint
  status: OrderStatus
  task: string | undefined
  output: string | undefined
  error: OrderError | undefined
  correlationId: string | undefined
  createdAt: UnixMs
  updatedAt: UnixMs
}

/** A signature this node has given, stored before it left. */
export type Reservation = {
  paymentId: Hex
  orderId: string
  agentId: string
  sellerId: string
  requirements: PaymentRequirements
  envelope: PaymentEnvelope
  amount: bigint
  validBeforeSeconds: number
}
/** `reserved`: may still be settled. `spent`: bought something, or was settled. `released`: can never be settled. */
export type ReservationState = 'reserved' | 'spent' | 'released'
export type StoredReservation = Reservation & { state: ReservationState; txHash: Hex | undefined; updatedAt: UnixMs }

/** The buyer's ledger: orders, the authorizations signed for them, and what counts against the day's budget. */
export interface Purchases {
  /**
   * Stores an order with the authorization signed for it, if the day's budget holds both. Durable when it resolves.
   *
   * `again`: this order was signed for before; it never is twice (D33).
   */
  reserve(
    order: Order,
    reservation: Reservation,
    budget: { day: string; amountMax: bigint },
  ): Promise<'reserved' | 'over' | 'again'>
  /** Stores what was bought, or that nothing was. Durable when it resolves. */
  finish(order: Order, paid?: { paymentId: Hex; txHash: Hex | undefined }): Promise<void>
  setTxHash(paymentId: Hex, txHash: Hex, now: UnixMs): Promise<void>
  /** Ends a reservation that brought nothing: `spent` keeps it in the day's budget, `released` gives it back. */
  resolve(paymentId: Hex, state: 'spent' | 'released', txHash: Hex | undefined, now: UnixMs): Promise<void>
  order(id: string): Order | undefined
  reservationOf(orderId: string): StoredReservation | undefined
  /** Reservations whose outcome is unknown, oldest window first. */
  reserved(limit: number): StoredReservation[]
  /** Purchases that got their result while settlement was pending. */
  withoutTxHash(since: UnixMs, limit: number): StoredReservation[]
  /** Free or unpaid orders that a crash left executing. */
  executingUnpaid(before: UnixMs, limit: number): Order[]
  spentOn(day: string): bigint
}

type OrderRow = {
  id: string
  agent_id: string
  seller_id: string | null
  price: number
  status: OrderStatus
  task: string | null
  output: string | null
  error: string | null
  correlation_id: string | null
  created_at: number
  updated_at: number
}
type ReservationRow = {
  payment_id: string
  order_id: string
  agent_id: string
  seller_id: string
  state: ReservationState
  requirements: string
  envelope: string
  amount: number
  valid_before_s: number
  day: string
  tx_hash: string | null
  updated_at: number
}

const UPSERT_ORDER = `
  INSERT INTO orders (id, agent_id, seller_id, price, status, task, output, error, correlation_id, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET seller_id = excluded.seller_id, status = excluded.status, task = excluded.task,
    output = excluded.output, error = excluded.error, correlation_id = excluded.correlation_id,
    updated_at = excluded.updated_at`
const INSERT_AUTHORIZATION = `
  INSERT INTO authorizations
    (payment_id, order_id, agent_id, seller_id, state, requirements, envelope, amount, valid_before_s, day, created_at, updated_at)
  VALUES (?, ?, ?, ?, 'reserved', ?, ?, ?, ?, ?, ?, ?)`
const ADD_TO_DAY = `
  INSERT INTO budget_days (day, amount) VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET amount = amount + excluded.amount`

export function createPurchases(database: Database): Purchases {
  const one = (sql: string, ...values: (string | number)[]) => database.prepare(sql).get(...values) as unknown
  const all = (sql: string, ...values: (string | number)[]) => database.prepare(sql).all(...values) as unknown[]
  const spentOn = (day: string) => {
    const row = one('SELECT amount FROM budget_days WHERE day = ?', day) as { amount: number } | undefined
    return BigInt(row?.amount ?? 0)
  }
  const putOrder = (order: Order) => database.prepare(UPSERT_ORDER).run(...orderValues(order))

  return {
    reserve: (order, reservation, budget) =>
      database.write(() => {
        if (one('SELECT 1 FROM authorizations WHERE order_id = ?', order.id) !== undefined) return 'again'
        if (spentOn(budget.day) + reservation.amount > budget.amountMax) return 'over'
        putOrder(order)
        database
          .prepare(INSERT_AUTHORIZATION)
          .run(
            reservation.paymentId,
            reservation.orderId,
            reservation.agentId,
            reservation.sellerId,
            JSON.stringify(PaymentRequirements.encode(reservation.requirements)),
            JSON.stringify(PaymentEnvelope.encode(reservation.envelope)),
            reservation.amount,
            reservation.validBeforeSeconds,
            budget.day,
            order.updatedAt,
            order.updatedAt,
          )
        database.prepare(ADD_TO_DAY).run(budget.day, reservation.amount)
        return 'reserved'
      }),
    finish: (order, paid) =>
      database.write(() => {
        putOrder(order)
        if (paid === undefined) return
        database
          .prepare(`UPDATE authorizations SET state = 'spent', tx_hash = ?, updated_at = ? WHERE payment_id = ?`)
          .run(paid.txHash ?? null, order.updatedAt, paid.paymentId)
      }),
    setTxHash: (paymentId, txHash, now) =>
      database.write(() => {
        database
          .prepare('UPDATE authorizations SET tx_hash = ?, updated_at = ? WHERE payment_id = ?')
          .run(txHash, now, paymentId)
      }),
    resolve: (paymentId, state, txHash, now) =>
      database.write(() => {
        const row = one(`SELECT * FROM authorizations WHERE payment_id = ? AND state = 'reserved'`, paymentId)
        if (row === undefined) return
        const { amount, day } = row as ReservationRow
        database
          .prepare('UPDATE authorizations SET state = ?, tx_hash = ?, updated_at = ? WHERE payment_id = ?')
          .run(state, txHash ?? null, now, paymentId)
        if (state === 'released') database.prepare(ADD_TO_DAY).run(day, -amount)
      }),
    order: (id) => mapRow(one('SELECT * FROM orders WHERE id = ?', id), toOrder),
    reservationOf: (orderId) => mapRow(one('SELECT * FROM authorizations WHERE order_id = ?', orderId), toReservation),
    reserved: (limit) =>
      all(`SELECT * FROM authorizations WHERE state = 'reserved' ORDER BY valid_before_s LIMIT ?`, limit).map((row) =>
        toReservation(row as ReservationRow),
      ),
    withoutTxHash: (since, limit) =>
      all(
        `SELECT * FROM authorizations WHERE state = 'spent' AND tx_hash IS NULL AND created_at >= ? ORDER BY created_at LIMIT ?`,
        since,
        limit,
      ).map((row) => toReservation(row as ReservationRow)),
    executingUnpaid: (before, limit) =>
      all(
        `SELECT * FROM orders WHERE status = 'executing' AND updated_at < ?
           AND id NOT IN (SELECT order_id FROM authorizations WHERE state = 'reserved') LIMIT ?`,
        before,
        limit,
      ).map((row) => toOrder(row as OrderRow)),
    spentOn,
  }
}

function mapRow<R, T>(row: unknown, map: (row: R) => T): T | undefined {
  return row === undefined ? undefined : map(row as R)
}

function orderValues(order: Order) {
  return [
    order.id,
    order.agentId,
    order.sellerId ?? null,
    order.price,
    order.status,
    order.task ?? null,
    order.output ?? null,
    order.error === undefined ? null : JSON.stringify(order.error),
    order.correlationId ?? null,
    order.createdAt,
    order.updatedAt,
  ] as const
}

function toOrder(row: OrderRow): Order {
  return {
    id: row.id,
    agentId: row.agent_id,
    sellerId: row.seller_id ?? undefined,
    price: BigInt(row.price),
    status: row.status,
    task: row.task ?? undefined,
    output: row.output ?? undefined,
    error: row.error === null ? undefined : (JSON.parse(row.error) as OrderError),
    correlationId: row.correlation_id ?? undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

function toReservation(row: ReservationRow): StoredReservation {
  return {
    paymentId: row.payment_id as Hex,
    orderId: row.order_id,
    agentId: row.agent_id,
    sellerId: row.seller_id,
    state: row.state,
    requirements: PaymentRequirements.parse(JSON.parse(row.requirements)),
    envelope: PaymentEnvelope.parse(JSON.parse(row.envelope)),
    amount: BigInt(row.amount),
    validBeforeSeconds: row.valid_before_s,
    txHash: (row.tx_hash ?? undefined) as Hex | undefined,
    updatedAt: row.updated_at,
  }
}
