import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import { AUTHORIZATION_COLUMNS, AUTHORIZATION_PLACES, authorizationValues } from './authorization-row.ts'
import type { Database } from './database.ts'
import { heldInPeriod } from './held.ts'
import { toBytes } from './hex.ts'
import { endOrdersOfRuns, endUnattended } from './idempotency.ts'
import { type OpenPurchases, openPurchases } from './open-purchases.ts'
import { isFinal, type Order, type OrderStatus, putOrder, toOrder } from './order-row.ts'
import { nextLook, type PurchaseLooks, purchaseLooks } from './purchase-looks.ts'
import { packReceipt } from './receipt-row.ts'
import {
  RESERVATIONS,
  type Reservation,
  type ReservationRow,
  type StoredReservation,
  toReservation,
} from './reservation-row.ts'
import { noteRevision } from './revisions.ts'
import { type Expense, type LimitExceeded, type SpendingLimits, spending } from './spending.ts'
import { runOnSqlite } from './sqlite-query.ts'

export type { Order, OrderError, OrderStatus } from './order-row.ts'
export type { Confirmation, Reservation, ReservationState, StoredReservation } from './reservation-row.ts'

/** The outcome of a paid purchase. The note says why there is no receipt: '' if the seller sent none. */
export type PurchasePayment = {
  paymentId: Hex
  amount: bigint
  txHash: Hex | undefined
  receipt?: SignedReceipt | undefined
  receiptNote?: string | undefined
}

/** The buyer's ledger: orders, the authorizations signed for them, and the sums for the budget. */
export interface Purchases extends PurchaseLooks, OpenPurchases {
  /**
   * Stores an order with its signed authorization if every limit allows it. Durable when it resolves.
   *
   * `limits` and then `approve` run inside the transaction, so that the rules cannot change in between. If either
   * throws, the reservation is refused. `again`: this order already has an authorization and never gets a second (D33).
   * `ended`: the order was canceled meanwhile.
   */
  reserve(
    order: Order,
    reservation: Reservation,
    budget: { day: string; limits(): SpendingLimits; approve?(): void },
  ): Promise<'reserved' | LimitExceeded | 'again' | 'ended'>
  /** Stores a purchase, or that nothing was bought. Durable when it resolves. */
  finish(order: Order, paid?: PurchasePayment): Promise<void>
  /** Notes the transaction that the seller names. @returns the id of the order; undefined if nothing changed */
  setTxHash(paymentId: Hex, txHash: Hex, now: UnixMs): Promise<string | undefined>
  /**
   * Notes that the chain shows the transfer, and in which transaction.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  confirm(paymentId: Hex, txHash: Hex, now: UnixMs): Promise<string | undefined>
  /**
   * Ends a reservation without a result: `spent` keeps it in the budget, `released` returns the amount. `txHash` is a
   * transaction that the chain shows.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  resolve(
    paymentId: Hex,
    state: 'spent' | 'released',
    txHash: Hex | undefined,
    now: UnixMs,
  ): Promise<string | undefined>
  /**
   * Releases a purchase that brought a result and was never settled, because its seller let the authorization expire.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  giveBack(paymentId: Hex, now: UnixMs): Promise<string | undefined>
  /**
   * Notes a refund that the chain shows.
   *
   * @returns the id of the order; undefined if it was noted before, or the transaction refunded another purchase
   */
  paidBack(paymentId: Hex, txHash: Hex, now: UnixMs): Promise<string | undefined>
  order(id: string): Order | undefined
  /** The last order for a run of an own agent. */
  orderOfRun(run: string): Order | undefined
  /** Counts signed orders for runs of an own agent since then that have no result: executing, in doubt, or charged. */
  fruitlessFor(agentId: string, since: UnixMs): number
  /** Purchases for sold runs of an own agent since then that have a result or may get one, while the run is not paid for. */
  unearnedFor(agentId: string, since: UnixMs): number
  reservationOf(orderId: string): StoredReservation | undefined
  /** Removes a purchase from `unreceived`, because its seller no longer keeps the result. */
  stopAsking(paymentId: Hex): Promise<void>
  /** Makes unsigned orders pending again that were executing when the node ended. Orders with waiting callers end. */
  reopenUnsigned(now: UnixMs): Promise<void>
  /** The limit that an amount exceeds now. */
  over(spent: Expense, amount: bigint, limits: SpendingLimits): LimitExceeded | undefined
  /** The sum of a UTC day, `2026-11-21`, or of a month, `2026-11`. */
  spentOn(period: string): bigint
  /** The part of that sum that the chain does not show yet: signed, and may still be charged (D42). */
  heldOn(period: string): bigint
}

const ORDER_NO = 'SELECT no FROM orders WHERE id = ?'
const INSERT_AUTHORIZATION = `
  INSERT INTO authorizations
    (order_no, payment_id, agent_id, seller_id, state, challenge_nonce, ${AUTHORIZATION_COLUMNS}, day,
     settles_first, created_at, updated_at)
  VALUES ((${ORDER_NO}), ?, ?, ?, 'reserved', ?, ${AUTHORIZATION_PLACES}, ?, ?, ?, ?)`
const FRUITLESS_FOR = `
  SELECT count(*) AS n FROM orders o JOIN authorizations a ON a.order_no = o.no
  WHERE o.for_agent IS NOT NULL AND o.for_agent = ? AND o.created_at >= ? AND o.status <> 'completed'
    AND (a.state = 'spent' OR (a.state = 'reserved' AND o.status = 'executing')) AND a.refund_tx IS NULL`
const UNEARNED_FOR = `
  SELECT count(*) AS n FROM orders o JOIN authorizations a ON a.order_no = o.no LEFT JOIN payments p ON p.id = o.for_payment
  WHERE o.for_payment IS NOT NULL AND o.for_agent = ? AND o.created_at >= ? AND o.status IN ('executing', 'completed')
    AND a.state <> 'released' AND a.refund_tx IS NULL AND p.state IS NOT 'settled'`
const SIGNED_FOR = `
  SELECT o.status, o.cancel_requested_at, a.payment_id
  FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no WHERE o.id = ?`
type SignedForRow = { status: OrderStatus; cancel_requested_at: number | null; payment_id: Uint8Array | null }
const SPEND = `
  UPDATE authorizations SET state = 'spent', tx_hash = coalesce(tx_hash, ?), receipt = coalesce(?, receipt), receipt_note = ?, updated_at = ?,
    unreceived = NULL
  WHERE order_no = (${ORDER_NO}) AND state <> 'released'`
const TAKE_BACK = "UPDATE authorizations SET state = 'spent', look_at = NULL WHERE order_no = ?"
const END = `
  UPDATE authorizations SET state = ?1, tx_hash = ?2, updated_at = ?3, confirmed_at = iif(?2 IS NULL, NULL, ?3),
    unreceived = iif(?1 = 'spent' AND (SELECT status FROM orders WHERE no = order_no) <> 'completed', 1, NULL),
    look_at = iif(?1 = 'spent' AND ?2 IS NULL, NULL, ${nextLook('?3')})
  WHERE order_no = ?4`
const SET_TX_HASH = `
  UPDATE authorizations SET tx_hash = ?, updated_at = ? WHERE payment_id = ? AND state = 'spent' AND tx_hash IS NULL
  RETURNING (SELECT id FROM orders WHERE no = order_no) AS id`
const CONFIRM = `
  UPDATE authorizations SET tx_hash = ?1, confirmed_at = ?2, updated_at = ?2, look_at = ${nextLook('?2')}
  WHERE payment_id = ?3 AND state = 'spent' AND confirmed_at IS NULL
  RETURNING (SELECT id FROM orders WHERE no = order_no) AS id`
const PAY_BACK = `
  UPDATE OR IGNORE authorizations SET refund_tx = ?, updated_at = ?, unreceived = NULL
  WHERE payment_id = ? AND state = 'spent' AND refund_tx IS NULL
  RETURNING (SELECT id FROM orders WHERE no = order_no) AS id`
const SIGNED = `
  SELECT o.id AS order_id, o.agent_name, o.token_id, a.* FROM authorizations a JOIN orders o ON o.no = a.order_no WHERE a.payment_id = ?`
const RESERVED = `${SIGNED} AND a.state = 'reserved'`
const RELEASED = `${SIGNED} AND a.state = 'released'`
const UNCONFIRMED = `${SIGNED} AND a.state = 'spent' AND a.confirmed_at IS NULL`
type ReservedRow = ReservationRow & { order_no: number; token_id: string | null }

/** @param options `hasChain`: true if this node can ask the chain about payments */
export function createPurchases(database: Database, { hasChain = true }: { hasChain?: boolean } = {}): Purchases {
  const { one } = database
  const sums = spending(database)
  const toStored = (row: unknown) => toReservation(row as ReservationRow, hasChain)

  function end(row: unknown, state: 'spent' | 'released', txHash: Hex | undefined, now: UnixMs): string | undefined {
    if (row === undefined) return undefined
    const signed = row as ReservedRow
    database.run(END, state, bytesOrNull(txHash), now, signed.order_no)
    if (state === 'released') sums.add(spentBy(signed), -BigInt(signed.amount))
    return signed.order_id
  }

  return {
    reserve: (order, reservation, budget) =>
      database.write(() => {
        const known = one(SIGNED_FOR, order.id) as SignedForRow | undefined
        if (known !== undefined && known.payment_id !== null) return 'again'
        if (known !== undefined && (isFinal(known.status) || known.cancel_requested_at !== null)) return 'ended'
        const { requirements, envelope, amount, sellerId } = reservation
        const spent = { day: budget.day, sellerId, tokenId: order.tokenId }
        const over = sums.over(spent, amount, budget.limits())
        if (over !== undefined) return over
        budget.approve?.()
        runOnSqlite(database.prepare, putOrder(order))
        database
          .prepare(INSERT_AUTHORIZATION)
          .run(
            reservation.orderId,
            toBytes(reservation.paymentId),
            reservation.agentId,
            reservation.sellerId,
            envelope.server_nonce === 'preemptive' ? null : toBytes(envelope.server_nonce),
            ...authorizationValues(requirements, envelope.payload!),
            budget.day,
            reservation.settlesFirst === true ? 1 : null,
            order.updatedAt,
            order.updatedAt,
          )
        sums.add(spent, amount)
        return 'reserved'
      }),
    finish: (order, paid) =>
      database.write(() => {
        runOnSqlite(database.prepare, putOrder(order))
        if (paid === undefined) return
        const receipt = paid.receipt === undefined ? null : packReceipt(paid.receipt)
        const { txHash, receiptNote = null } = paid
        const spend = () =>
          database.run(SPEND, bytesOrNull(txHash), receipt, receiptNote, order.updatedAt, order.id).changes
        if (spend() !== 0) return
        // The result of a released purchase arrived late: the purchase counts again and may be released once more.
        const row = one(RELEASED, toBytes(paid.paymentId)) as ReservedRow | undefined
        if (row === undefined) return
        runOnSqlite(database.prepare, noteRevision())
        database.run(TAKE_BACK, row.order_no)
        sums.add(spentBy(row), BigInt(row.amount))
        spend()
      }),
    setTxHash: (paymentId, txHash, now) =>
      database.write(() => database.one<{ id: string }>(SET_TX_HASH, toBytes(txHash), now, toBytes(paymentId))?.id),
    confirm: (paymentId, txHash, now) =>
      database.write(() => database.one<{ id: string }>(CONFIRM, toBytes(txHash), now, toBytes(paymentId))?.id),
    resolve: (paymentId, state, txHash, now) =>
      database.write(() => end(one(RESERVED, toBytes(paymentId)), state, txHash, now)),
    giveBack: (paymentId, now) =>
      database.write(() => end(one(UNCONFIRMED, toBytes(paymentId)), 'released', undefined, now)),
    ...purchaseLooks(database, toStored, sums),
    ...openPurchases(database),
    paidBack: (paymentId, txHash, now) =>
      database.write(() => database.one<{ id: string }>(PAY_BACK, toBytes(txHash), now, toBytes(paymentId))?.id),
    order: (id) => mapRow(one('SELECT * FROM orders WHERE id = ?', id), toOrder),
    orderOfRun: (run) =>
      mapRow(
        one('SELECT * FROM orders WHERE for_run IS NOT NULL AND for_run = ? ORDER BY no DESC LIMIT 1', run),
        toOrder,
      ),
    fruitlessFor: (agentId, since) => (one(FRUITLESS_FOR, agentId, since) as { n: number }).n,
    unearnedFor: (agentId, since) => (one(UNEARNED_FOR, agentId, since) as { n: number }).n,
    reservationOf: (orderId) => mapRow(one(`${RESERVATIONS} WHERE o.id = ?`, orderId), toStored),
    stopAsking: (paymentId) =>
      database.writeOne('UPDATE authorizations SET unreceived = NULL WHERE payment_id = ?', toBytes(paymentId)),
    reopenUnsigned: (now) =>
      database.write(() => {
        runOnSqlite(database.prepare, endUnattended(now))
        runOnSqlite(database.prepare, endOrdersOfRuns(now))
        database
          .prepare(`
            UPDATE orders SET status = iif(cancel_requested_at IS NULL, 'pending', 'cancelled'), updated_at = ?
            WHERE status IN ('pending', 'executing') AND status = 'executing'
              AND no NOT IN (SELECT order_no FROM authorizations)`)
          .run(now)
      }),
    over: sums.over,
    spentOn: sums.in,
    heldOn: (period) => runOnSqlite(database.prepare, heldInPeriod(period)),
  }
}

function spentBy({ day, seller_id, token_id }: ReservedRow): Expense {
  return { day, sellerId: seller_id, tokenId: token_id ?? undefined }
}

function mapRow<R, T>(row: unknown, map: (row: R) => T): T | undefined {
  return row === undefined ? undefined : map(row as R)
}

function bytesOrNull(hash: Hex | undefined): Uint8Array | null {
  return hash === undefined ? null : toBytes(hash)
}
