import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import { type ChannelCharges, type ChargedCall, channelCharges, chargedEnds } from './channel-charges.ts'
import { heldInPeriod } from './held.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { type OpenPurchases, openPurchases } from './open-purchases.ts'
import { type Order, type OrderRow, putHeldOrder, putOrder, toOrder } from './order-row.ts'
import { takingOver } from './ownership.ts'
import { nextLook, type PurchaseLooks, purchaseLooks } from './purchase-looks.ts'
import { lock, one, type Query, run, steps, together, type Value } from './query.ts'
import { packReceipt } from './receipt-row.ts'
import {
  CHANGED,
  type ChangedRow,
  confirmationOf,
  expenseOf,
  ofOrder,
  RESERVATIONS,
  type Reservation,
  type ReservationOf,
  type ReservationRow,
  type SpentRow,
  type StoredEnd,
  type StoredReservation,
  toReservation,
} from './reservation-row.ts'
import { type Allowance, type ReserveOutcome, type Standing, standingOf } from './reserve.ts'
import { reservations } from './reserve-together.ts'
import { noteRevision } from './revisions.ts'
import { type Senders, senders } from './senders.ts'
import { type Noted, notedIfAny } from './shared-changes.ts'
import {
  addSpending,
  type Expense,
  exceeded,
  type LimitExceeded,
  type SpendingLimits,
  SUM_COLUMNS,
  type SumColumns,
  spentIn,
  sumKeys,
  sumsIn,
} from './spending.ts'
import { takeOverPurchases } from './take-over-purchases.ts'

export type { Order, OrderError, OrderStatus } from './order-row.ts'
export type {
  Confirmation,
  Reservation,
  ReservationOf,
  ReservationState,
  StoredEnd,
  StoredReservation,
} from './reservation-row.ts'

/** The outcome of a paid purchase. The note says why there is no receipt: '' if the seller sent none. */
export type PurchasePayment = {
  paymentId: Hex
  amount: bigint
  txHash: Hex | undefined
  receipt?: SignedReceipt | undefined
  receiptNote?: string | undefined
  /** Set if a channel has paid. */
  onChannel?: ChargedCall | undefined
}

/** The buyer's ledger: orders, the authorizations signed for them, and the sums for the budget. */
export interface Purchases extends PurchaseLooks, OpenPurchases, Senders, ChannelCharges {
  /**
   * Stores an order with its signed authorization if every limit allows it. Durable when it resolves.
   *
   * If `limits` or `approve` throws, the reservation is refused. `again`: this order already has an authorization and
   * never gets a second (D33). `ended`: the order was canceled meanwhile.
   */
  reserve(order: Order, reservation: Reservation, allowance: Allowance): Promise<ReserveOutcome>
  /**
   * Stores a purchase, or that nothing was bought. Durable when it resolves.
   *
   * @returns the payment as it is stored now, if it was reserved until then
   */
  finish(order: Order, paid?: PurchasePayment): Promise<StoredEnd | undefined>
  /** Notes the transaction that the seller names. @returns the id of the order; undefined if nothing changed */
  setTxHash(of: ReservationOf, txHash: Hex, now: UnixMs): Promise<string | undefined>
  /**
   * Notes that the chain shows the transfer, and in which transaction.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  confirm(of: ReservationOf, txHash: Hex, now: UnixMs): Promise<string | undefined>
  /**
   * Ends a reservation without a result: `spent` keeps it in the budget, `released` returns the amount. `txHash` is a
   * transaction that the chain shows.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  resolve(
    of: ReservationOf,
    state: 'spent' | 'released',
    txHash: Hex | undefined,
    now: UnixMs,
  ): Promise<string | undefined>
  /**
   * Releases a purchase that brought a result and was never settled, because its seller let the authorization expire.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  giveBack(of: ReservationOf, now: UnixMs): Promise<string | undefined>
  /**
   * Notes a refund that the chain shows.
   *
   * @returns the id of the order; undefined if it was noted before, or the transaction refunded another purchase
   */
  paidBack(of: ReservationOf, txHash: Hex, now: UnixMs): Promise<string | undefined>
  order(id: string): Promise<Order | undefined>
  /** The last order for a run of an own agent. */
  orderOfRun(run: string): Promise<Order | undefined>
  /** Counts signed orders for runs of an own agent since then that have no result: executing, in doubt, or charged. */
  fruitlessFor(agentId: string, since: UnixMs): Promise<number>
  /** Purchases for sold runs of an own agent since then that have a result or may get one, while the run is not paid for. */
  unearnedFor(agentId: string, since: UnixMs): Promise<number>
  reservationOf(orderId: string): Promise<StoredReservation | undefined>
  /** Removes a purchase from `unreceived`, because its seller has dropped the result. */
  stopAsking(of: ReservationOf): Promise<void>
  /**
   * Takes over what processes left that have ended. Unsigned orders that were executing are pending again; those with
   * waiting callers end.
   */
  takeOver(now: UnixMs): Promise<void>
  standingOf(order: Pick<Order, 'id' | 'tokenId'>): Promise<Standing>
  /** The limit that an amount would exceed. */
  over(spent: Expense, amount: bigint, limits: SpendingLimits): Promise<LimitExceeded | undefined>
  /** The sums of a UTC day, `2026-11-21`, and of its month. */
  spendingOn(day: string): Promise<PeriodSpending>
  /** What counts against the limit of a UTC day, or of a month, `2026-11`. */
  spentOn(period: string): Promise<bigint>
}

/** `spent` counts against the limits. `held`: the part that the chain does not show yet, and may still be charged (D42). */
type PeriodSpending = { [part in 'spent' | 'held']: { day: bigint; month: bigint } }

const FRUITLESS_FOR = `
  SELECT count(*) AS n FROM orders o JOIN authorizations a ON a.order_no = o.no
  WHERE o.for_agent IS NOT NULL AND o.for_agent = ? AND o.created_at >= ? AND o.status <> 'completed'
    AND (a.state = 'spent' OR (a.state = 'reserved' AND o.status = 'executing')) AND a.refund_tx IS NULL`
const UNEARNED_FOR = `
  SELECT count(*) AS n FROM orders o JOIN authorizations a ON a.order_no = o.no LEFT JOIN payments p ON p.id = o.for_payment
  WHERE o.for_payment IS NOT NULL AND o.for_agent = ? AND o.created_at >= ? AND o.status IN ('executing', 'completed')
    AND a.state <> 'released' AND a.refund_tx IS NULL AND p.state IS DISTINCT FROM 'settled'`
const SPEND = `
  UPDATE authorizations SET state = 'spent', tx_hash = coalesce(tx_hash, ?), receipt = coalesce(?, receipt), receipt_note = ?, updated_at = ?,
    unreceived = NULL
  WHERE ${ofOrder()} AND state <> 'released'`
/** A statement of its own: SQLite takes twice as long for one that changes a row and returns it. */
const SPENT = `SELECT confirmed_at FROM authorizations WHERE ${ofOrder()}`
const SPEND_RELEASED = `
  UPDATE authorizations SET state = 'spent', tx_hash = coalesce(tx_hash, ?), receipt = coalesce(?, receipt), receipt_note = ?, updated_at = ?,
    unreceived = NULL, look_at = NULL
  WHERE ${ofOrder()} AND state = 'released' RETURNING ${CHANGED}`
const WAS_RESERVED = "state = 'reserved'"
const WAS_UNCONFIRMED = "state = 'spent' AND confirmed_at IS NULL"
const spentWith = (proof: string) => `
  UPDATE authorizations SET state = 'spent', updated_at = ?2, ${proof},
    unreceived = CASE WHEN (SELECT status FROM orders WHERE no = order_no) <> 'completed' THEN 1 END
  WHERE ${ofOrder('?1')} AND ${WAS_RESERVED} RETURNING ${CHANGED}`
const SPEND_UNPROVEN = spentWith('tx_hash = NULL, confirmed_at = NULL, look_at = NULL')
const SPEND_PROVEN = spentWith(`tx_hash = ?3, confirmed_at = ?2, look_at = ${nextLook('?2')}`)
const releaseWhere = (condition: string) => `
  UPDATE authorizations SET state = 'released', updated_at = ?2, tx_hash = NULL, confirmed_at = NULL, unreceived = NULL,
    look_at = CASE WHEN channel IS NULL THEN ${nextLook('?2')} END
  WHERE ${ofOrder('?1')} AND ${condition} RETURNING ${CHANGED}`
const SET_TX_HASH = `
  UPDATE authorizations SET tx_hash = ?, updated_at = ? WHERE ${ofOrder()} AND state = 'spent' AND tx_hash IS NULL
  RETURNING ${CHANGED}`
const CONFIRM = `
  UPDATE authorizations SET tx_hash = ?1, confirmed_at = ?2, updated_at = ?2, look_at = ${nextLook('?2')}
  WHERE ${ofOrder('?3')} AND ${WAS_UNCONFIRMED} RETURNING ${CHANGED}`
const PAY_BACK = `
  UPDATE authorizations SET refund_tx = ?1, updated_at = ?2, unreceived = NULL
  WHERE ${ofOrder('?3')} AND state = 'spent' AND refund_tx IS NULL
    AND NOT EXISTS (SELECT 1 FROM authorizations other WHERE other.refund_tx = ?1)
  RETURNING ${CHANGED}`
const STOP_ASKING = `UPDATE authorizations SET unreceived = NULL WHERE ${ofOrder()}`
const ORDER_OF_RUN = 'SELECT * FROM orders WHERE for_run IS NOT NULL AND for_run = ? ORDER BY no DESC LIMIT 1'

/** @param options `hasChain`: true if this node can ask the chain about payments */
export function createPurchases(database: LedgerDatabase, { hasChain = true }: { hasChain?: boolean } = {}): Purchases {
  const { process } = database
  const toStored = (row: ReservationRow) => toReservation(row, hasChain)
  /** Changes one reservation. @returns the id of its order, if it changed */
  const change = async (id: string, changed: Query<ChangedRow | undefined>, ...noted: readonly Noted[]) =>
    (await database.commit(changed, { record: 'purchase', id }, ...noted))?.order_id
  const order = async (found: Query<OrderRow | undefined>) => mapRow(await database.query(found), toOrder)
  const finishOnChannel = chargedEnds(database)
  const count = async (counted: Query<{ n: number } | undefined>) => Number((await database.query(counted))!.n)

  return {
    reserve: reservations(database),
    async finish(order, paid) {
      const ended = { record: 'order', id: order.id } as const
      if (paid === undefined) return void (await database.commit(putOrder(order, process), ended))
      const noted = [ended, { record: 'purchase', id: order.id }] as const
      const [named, ...receipt] = spentValues(paid)
      if (paid.onChannel !== undefined) return finishOnChannel({ order, onChannel: paid.onChannel, receipt })
      const spent: readonly Value[] = [named!, ...receipt, order.updatedAt, order.id]
      // SPEND comes first: it locks the authorization, so that nobody releases it before the order ends.
      const held = together(run(SPEND, ...spent), one<SpentRow>(SPENT, order.id), putHeldOrder(order, process))
      const [isSpent, row] = await database.commit(held, ...noted)
      if (isSpent === 1) return { state: 'spent', confirmation: confirmationOf(row!, hasChain), amount: paid.amount }
      return void (await database.commit(finishLate(putOrder(order, process), spent), ...noted))
    },
    setTxHash: ({ orderId }, txHash, now) => change(orderId, one(SET_TX_HASH, toBytes(txHash), now, orderId)),
    confirm: ({ orderId }, txHash, now) => change(orderId, one(CONFIRM, toBytes(txHash), now, orderId)),
    resolve({ orderId }, state, txHash, now) {
      if (state === 'released') return change(orderId, release(WAS_RESERVED, orderId, now))
      const spent =
        txHash === undefined
          ? one<ChangedRow>(SPEND_UNPROVEN, orderId, now)
          : one<ChangedRow>(SPEND_PROVEN, orderId, now, toBytes(txHash))
      return change(orderId, spent)
    },
    giveBack: ({ orderId }, now) => change(orderId, release(WAS_UNCONFIRMED, orderId, now)),
    ...purchaseLooks(database, toStored),
    ...openPurchases(database),
    ...senders(database),
    ...channelCharges(database),
    paidBack: ({ orderId }, txHash, now) =>
      change(
        orderId,
        steps(function* () {
          // Two purchases that name one transaction at the same time: the second must see the first.
          yield* lock('refunds received')
          return yield* one<ChangedRow>(PAY_BACK, toBytes(txHash), now, orderId)
        }),
        { record: 'order', id: orderId },
      ),
    order: (id) => order(one('SELECT * FROM orders WHERE id = ?', id)),
    orderOfRun: (run) => order(one(ORDER_OF_RUN, run)),
    fruitlessFor: (agentId, since) => count(one(FRUITLESS_FOR, agentId, since)),
    unearnedFor: (agentId, since) => count(one(UNEARNED_FOR, agentId, since)),
    reservationOf: async (orderId) =>
      mapRow(await database.query(one<ReservationRow>(`${RESERVATIONS} WHERE o.id = ?`, orderId)), toStored),
    async stopAsking({ orderId }) {
      await database.commit(run(STOP_ASKING, orderId))
    },
    async takeOver(now) {
      const changes = takingOver(takeOverPurchases(process, now, hasChain))
      await database.commit(notedIfAny(changes, database))
    },
    standingOf: (order) => database.query(standingOf(order)),
    async over(spent, amount, limits) {
      const row = await database.query(one<SumColumns>(`SELECT ${SUM_COLUMNS}`, ...sumKeys(spent)))
      return exceeded(spent, amount, { limits, sums: sumsIn(row!) })
    },
    async spendingOn(day) {
      const month = day.slice(0, 7)
      const [spent, spentMonth, held, heldMonth] = await database.query(
        together(spentIn(day), spentIn(month), heldInPeriod(day), heldInPeriod(month)),
      )
      return { spent: { day: spent, month: spentMonth }, held: { day: held, month: heldMonth } }
    },
    spentOn: (period) => database.query(spentIn(period)),
  }
}

/** Ends a reservation that can never be charged. The change of its state also takes it out of the sums. */
function release(condition: string, orderId: string, now: UnixMs): Query<ChangedRow | undefined> {
  return steps(function* () {
    const row = yield* one<ChangedRow>(releaseWhere(condition), orderId, now)
    if (row !== undefined) yield* addSpending(expenseOf(row), -BigInt(row.amount))
    return row
  })
}

/**
 * The result of a released purchase arrived late: the purchase counts again and may be released once more. In the change
 * that ends its order, so that no order has a result that is not paid for.
 */
function finishLate(ended: Query<number>, spent: readonly Value[]): Query<void> {
  return steps(function* () {
    const [, held] = yield* together(ended, one<SpentRow>(SPEND, ...spent))
    if (held !== undefined) return
    const row = yield* one<ChangedRow>(SPEND_RELEASED, ...spent)
    if (row !== undefined) yield* together(noteRevision(), addSpending(expenseOf(row), BigInt(row.amount)))
  })
}

function spentValues({ txHash, receipt, receiptNote }: PurchasePayment): Value[] {
  return [
    txHash === undefined ? null : toBytes(txHash),
    receipt === undefined ? null : packReceipt(receipt),
    receiptNote ?? null,
  ]
}

function mapRow<R, T>(row: R | undefined, map: (row: R) => T): T | undefined {
  return row === undefined ? undefined : map(row)
}
