import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import type { OrderError } from './order-row.ts'
import { all, one, run, steps, together } from './query.ts'
import {
  CHANGED,
  type ChangedRow,
  expenseOf,
  ofOrder,
  RESERVATIONS,
  type ReservationOf,
  type ReservationRow,
  type StoredReservation,
} from './reservation-row.ts'
import { noteRevision } from './revisions.ts'
import { addSpending } from './spending.ts'

/** Purchases whose outcome is looked up on chain again: an RPC node may lag, and a chain may undo what it showed. */
export interface PurchaseLooks {
  /** Purchases of this process on a network that are due for a look, longest overdue first. */
  looksDue(now: UnixMs, limit: number, network: string): Promise<StoredReservation[]>
  /** Sets when the chain is asked again; undefined: the outcome is final. */
  lookAt(of: ReservationOf, at: UnixMs | undefined): Promise<void>
  /**
   * Counts a released purchase as spent again, on its day, because the chain shows that it was charged. `error` becomes
   * the error of its order, if the order has failed.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  takeBack(charged: ReservationOf & { txHash: Hex; error: OrderError }, now: UnixMs): Promise<string | undefined>
  /**
   * Removes the confirmation of a purchase whose transfer a reorganization took back. Then only the seller vouches for
   * its transaction.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  unconfirm(of: ReservationOf, now: UnixMs): Promise<string | undefined>
  /**
   * Notes that the chain shows a confirmed transfer in another transaction than it did.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  moved(of: ReservationOf, txHash: Hex, now: UnixMs): Promise<string | undefined>
}

const LOOK_MS = 60_000
/** SQL for the first look: `LOOK_MS` after the chain's answer, and after the window. */
export const nextLook = (now: string) =>
  `CASE WHEN valid_before_s * 1000 > ${now} THEN valid_before_s * 1000 ELSE ${now} END + ${LOOK_MS}`

const DUE = `${RESERVATIONS} WHERE a.look_at <= ? AND a.network = ? AND o.owner = ? ORDER BY a.look_at, a.order_no LIMIT ?`
const LOOK_AT = `UPDATE authorizations SET look_at = ? WHERE ${ofOrder()}`
const TAKE_BACK = `
  UPDATE authorizations SET state = 'spent', tx_hash = ?, confirmed_at = ?, updated_at = ?, look_at = NULL,
    unreceived = CASE WHEN (SELECT status FROM orders WHERE no = order_no) <> 'completed' THEN 1 END
  WHERE ${ofOrder()} AND state = 'released' RETURNING ${CHANGED}`
const TELL_ORDER = "UPDATE orders SET error = ?, updated_at = ? WHERE no = ? AND status = 'failed'"
const UNCONFIRM = `
  UPDATE authorizations SET confirmed_at = NULL, look_at = NULL, updated_at = ?
  WHERE ${ofOrder()} AND state = 'spent' AND confirmed_at IS NOT NULL RETURNING ${CHANGED}`
const MOVED = `
  UPDATE authorizations SET tx_hash = ?1, updated_at = ?2
  WHERE ${ofOrder('?3')} AND state = 'spent' AND confirmed_at IS NOT NULL AND tx_hash <> ?1 RETURNING ${CHANGED}`

export function purchaseLooks(
  database: LedgerDatabase,
  toStored: (row: ReservationRow) => StoredReservation,
): PurchaseLooks {
  return {
    looksDue: async (now, limit, network) =>
      (await database.query(all<ReservationRow>(DUE, now, network, database.process, limit))).map(toStored),
    async lookAt({ orderId }, at) {
      await database.commit(run(LOOK_AT, at ?? null, orderId))
    },
    takeBack: ({ orderId, txHash, error }, now) =>
      database.commit(
        steps(function* () {
          const row = yield* one<ChangedRow>(TAKE_BACK, toBytes(txHash), now, now, orderId)
          if (row === undefined) return undefined
          const told = run(TELL_ORDER, JSON.stringify(error), now, row.order_no)
          yield* together(noteRevision(), told, addSpending(expenseOf(row), BigInt(row.amount)))
          return row.order_id
        }),
        { record: 'purchase', id: orderId },
        { record: 'order', id: orderId },
      ),
    async unconfirm({ orderId }, now) {
      const unconfirmed = one<ChangedRow>(UNCONFIRM, now, orderId)
      const [, row] = await database.commit(together(noteRevision(), unconfirmed), { record: 'purchase', id: orderId })
      return row?.order_id
    },
    moved: async ({ orderId }, txHash, now) =>
      (
        await database.commit(one<ChangedRow>(MOVED, toBytes(txHash), now, orderId), {
          record: 'purchase',
          id: orderId,
        })
      )?.order_id,
  }
}
