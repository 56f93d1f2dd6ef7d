import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Database } from './database.ts'
import { toBytes } from './hex.ts'
import type { OrderError } from './order-row.ts'
import { RESERVATIONS, type ReservationRow, type StoredReservation } from './reservation-row.ts'
import { noteRevision } from './revisions.ts'
import type { spending } from './spending.ts'
import { runOnSqlite } from './sqlite-query.ts'

/** Purchases whose outcome is looked up on chain again: an RPC node may lag, and a chain may undo what it showed. */
export interface PurchaseLooks {
  /** Purchases on a network that are due for a look, longest overdue first. */
  looksDue(now: UnixMs, limit: number, network: string): StoredReservation[]
  /** Sets when the chain is asked again; undefined: the outcome is final. */
  lookAt(paymentId: Hex, at: UnixMs | undefined): Promise<void>
  /**
   * Counts a released purchase as spent again, on its day, because the chain shows that it was charged. `error` becomes
   * the error of its order, if the order has failed.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  takeBack(charged: { paymentId: Hex; txHash: Hex; error: OrderError }, now: UnixMs): Promise<string | undefined>
  /**
   * Removes the confirmation of a purchase whose transfer the chain no longer shows. Only the seller then vouches for
   * its transaction.
   *
   * @returns the id of the order; undefined if nothing changed
   */
  unconfirm(paymentId: Hex, now: UnixMs): Promise<string | undefined>
}

const LOOK_MS = 60_000
/** SQL for the first look: `LOOK_MS` after the chain's answer, and after the window. */
export const nextLook = (now: string) => `max(${now}, valid_before_s * 1000) + ${LOOK_MS}`

const DUE = `${RESERVATIONS} WHERE a.look_at <= ? AND a.network = ? ORDER BY a.look_at LIMIT ?`
const LOOK_AT = 'UPDATE authorizations SET look_at = ? WHERE payment_id = ?'
const RELEASED = `
  SELECT o.id AS order_id, o.token_id, a.* FROM authorizations a JOIN orders o ON o.no = a.order_no
  WHERE a.payment_id = ? AND a.state = 'released'`
const TAKE_BACK = `
  UPDATE authorizations SET state = 'spent', tx_hash = ?1, confirmed_at = ?2, updated_at = ?2, look_at = NULL,
    unreceived = iif((SELECT status FROM orders WHERE no = order_no) <> 'completed', 1, NULL)
  WHERE order_no = ?3`
const TELL_ORDER = "UPDATE orders SET error = ?, updated_at = ? WHERE no = ? AND status = 'failed'"
const UNCONFIRM = `
  UPDATE authorizations SET confirmed_at = NULL, look_at = NULL, updated_at = ?
  WHERE payment_id = ? AND state = 'spent' AND confirmed_at IS NOT NULL
  RETURNING (SELECT id FROM orders WHERE no = order_no) AS id`

export function purchaseLooks(
  database: Database,
  toStored: (row: ReservationRow) => StoredReservation,
  sums: Pick<ReturnType<typeof spending>, 'add'>,
): PurchaseLooks {
  return {
    looksDue: (now, limit, network) => database.all<ReservationRow>(DUE, now, network, limit).map(toStored),
    lookAt: (paymentId, at) => database.writeOne(LOOK_AT, at ?? null, toBytes(paymentId)),
    takeBack: ({ paymentId, txHash, error }, now) =>
      database.write(() => {
        type Row = ReservationRow & { token_id: string | null }
        const row = database.one<Row>(RELEASED, toBytes(paymentId))
        if (row === undefined) return undefined
        runOnSqlite(database.prepare, noteRevision())
        database.run(TAKE_BACK, toBytes(txHash), now, row.order_no)
        database.run(TELL_ORDER, JSON.stringify(error), now, row.order_no)
        const { day, seller_id: sellerId, token_id, amount } = row
        sums.add({ day, sellerId, tokenId: token_id ?? undefined }, BigInt(amount))
        return row.order_id
      }),
    unconfirm: (paymentId, now) =>
      database.write(() => {
        runOnSqlite(database.prepare, noteRevision())
        return database.one<{ id: string }>(UNCONFIRM, now, toBytes(paymentId))?.id
      }),
  }
}
