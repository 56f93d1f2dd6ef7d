import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, one, run, together } from './query.ts'
import { noteRevision } from './revisions.ts'

/** The new fields of a payment whose settlement was undone. */
type OwedAgain = { id: Hex; attempts?: number; nextAttemptAt?: UnixMs; error?: string | undefined }

/** Settled payments that are looked up on chain again, because a chain may undo what it showed. */
export interface SettledLooks<Payment> {
  /** Settled payments of this process that are due for a look, longest overdue first. */
  settledDue(now: UnixMs, limit: number): Promise<Payment[]>
  nextLookAt(): Promise<UnixMs | undefined>
  /** Notes that the chain still shows the payment, perhaps in another transaction. `at`: the next look, if any. */
  lookAgain(id: Hex, at: UnixMs | undefined, txHash?: Hex): Promise<void>
  /** Makes a payment owed again whose settlement the chain undid. False: its state has changed. */
  takeBack(owed: OwedAgain, now: UnixMs): Promise<boolean>
}

const DUE = `SELECT * FROM payments WHERE look_at <= ? AND owner = ? ORDER BY look_at, no LIMIT ?`
const NEXT = 'SELECT min(look_at) AS at FROM payments WHERE look_at IS NOT NULL AND owner = ?'
const LOOK_AGAIN = `UPDATE payments SET look_at = ?, tx_hash = coalesce(?, tx_hash) WHERE id = ? AND state = 'settled'`
const TAKE_BACK = `
  UPDATE payments SET state = 'owed', attempts = ?, next_attempt_at = ?, unclear = 1, tx_hash = NULL, error = ?, look_at = NULL,
    updated_at = ?
  WHERE id = ? AND state = 'settled' AND refund_tx IS NULL`

export function settledLooks<Row, Payment>(
  database: LedgerDatabase,
  toPayment: (row: Row) => Payment,
): SettledLooks<Payment> {
  return {
    settledDue: async (now, limit) =>
      (await database.query(all<Row>(DUE, now, database.process, limit))).map((row) => toPayment(row)),
    nextLookAt: async () => (await database.query(one<{ at: number | null }>(NEXT, database.process)))?.at ?? undefined,
    async lookAgain(id, at, txHash) {
      const hash = txHash === undefined ? null : toBytes(txHash)
      const noted = hash === null ? [] : [{ record: 'payment', id } as const]
      await database.commitLater(run(LOOK_AGAIN, at ?? null, hash, toBytes(id)), ...noted)
    },
    async takeBack({ id, attempts = 0, nextAttemptAt, error = null }, now) {
      const values = [attempts, nextAttemptAt ?? now, error, now, toBytes(id)]
      const [taken] = await database.commit(together(run(TAKE_BACK, ...values), noteRevision()), {
        record: 'payment',
        id,
      })
      return taken === 1
    },
  }
}
