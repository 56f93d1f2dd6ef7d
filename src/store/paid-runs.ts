import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { MAY_MOVE, type StoredPayment } from './payment-row.ts'
import { one, run, together } from './query.ts'
import { refundPurpose } from './transactions.ts'

/**
 * Which process runs the work of a payment. `running` is 1 while the owner of a payment that settles first settles or
 * runs it. The owner of any other payment runs it while it is authorized. `running` is 2 while the owner pays a payment back
 * whose work has no result: a run and a refund exclude each other. A voided payment with 3 may be claimed once more.
 */
export interface PaidRuns {
  /** True if there is a payment of this id: its work has begun. */
  has(id: Hex): Promise<boolean>
  /**
   * Makes this process the one that runs settled work. False: another process runs it, or has since `payment` was read, or
   * there is nothing to run.
   */
  beginRun(payment: Pick<StoredPayment, 'id' | 'failedRuns'>): Promise<boolean>
  /** Counts a run of settled work that has failed. @returns how many have */
  runFailed(id: Hex, now: UnixMs): Promise<number>
  /**
   * Keeps all processes from running settled work that has no result, because this one pays it back. False: another process
   * runs it or pays it back, or it has a result, or was paid back.
   */
  beginRefund(id: Hex): Promise<boolean>
  /** True if a payment is being paid back somewhere, or a refund transaction was signed and may have been mined. */
  isBeingPaidBack(id: Hex): Promise<boolean>
  /** Lets any process run this work, because its run here ended without a result, or its refund without a transaction. */
  endRun(id: Hex): Promise<void>
  /** Gives settled work that waits here to another process, which is told of it. False: that one has ended, or it waits no more. */
  giveRun(id: Hex, to: string): Promise<boolean>
  /**
   * Ends a payment of this process whose agent will not run now. It is voided, unless it has left the state `authorized`:
   * then it is deferred (deferred.ts), since nobody waits for its work, and any process may run that once it has settled.
   *
   * @returns whether it is voided
   */
  abandon(id: Hex, error: string, now: UnixMs): Promise<boolean>
  /**
   * Voids a payment of this process whose run has ended without a result, and lets another process claim it once more. False: it is
   * further, or another process has it.
   */
  moveOn(id: Hex, error: string, now: UnixMs): Promise<boolean>
  /** True while another process that is alive has this payment under way. */
  isElsewhere(id: Hex): Promise<boolean>
}

const HAS_REFUND = "SELECT 1 FROM chain_transactions WHERE purpose = ?4 AND state IN ('sent', 'mined')"
const BEGIN = `
  UPDATE payments SET owner = ?1, running = 1
  WHERE id = ?2 AND state = 'settled' AND exchange_id IS NULL AND refund_tx IS NULL
    AND failed_runs = ?3 AND (running = 0 OR (owner = ?1 AND running = 1) OR ${LEFT_BEHIND}) AND NOT EXISTS (${HAS_REFUND})`
/** What this process runs or pays back itself, it keeps apart by itself. */
const BEGIN_REFUND = `
  UPDATE payments SET owner = ?1, running = 2
  WHERE id = ?2 AND state = 'settled' AND exchange_id IS NULL AND refund_tx IS NULL
    AND (running = 0 OR owner = ?1 OR ${LEFT_BEHIND})`
const PAYING_BACK = `
  SELECT 1 FROM chain_transactions WHERE purpose = ?1 AND state IN ('sent', 'mined')
  UNION ALL SELECT 1 FROM payments WHERE id = ?2 AND running = 2 AND NOT ${LEFT_BEHIND}`
const FAILED =
  'UPDATE payments SET failed_runs = failed_runs + 1, failed_run_at = ? WHERE id = ? RETURNING failed_runs AS n'
const END = 'UPDATE payments SET running = 0 WHERE id = ? AND owner = ? AND running > 0'
const GIVE = `
  UPDATE payments SET owner = ?1
  WHERE id = ?2 AND owner = ?3 AND running = 0 AND state = 'settled' AND exchange_id IS NULL AND refund_tx IS NULL
    AND EXISTS (SELECT 1 FROM processes WHERE id = ?1 AND ended_at IS NULL)`
const ABANDON = `
  UPDATE payments SET state = 'voided', error = ?, updated_at = ? WHERE id = ? AND owner = ? AND state = 'authorized'`
const MOVE_ON = `
  UPDATE payments SET state = 'voided', running = ${MAY_MOVE}, error = ?, updated_at = ?
  WHERE id = ? AND owner = ? AND state = 'authorized' AND task IS NULL`
const DEFER_UNRUN = `
  UPDATE payments SET running = 0,
    deferred = CASE WHEN deferred IS NULL AND state IN ('owed', 'settled') AND exchange_id IS NULL THEN 1 ELSE deferred END
  WHERE id = ? AND owner = ? AND running > 0`
const IS_VOIDED = "SELECT 1 FROM payments WHERE id = ? AND state = 'voided'"
const ELSEWHERE = `
  SELECT 1 FROM payments WHERE id = ? AND owner <> ? AND NOT ${LEFT_BEHIND} AND exchange_id IS NULL
    AND (state = 'authorized' OR (running = 1 AND state IN ('owed', 'settled')))`

export function paidRuns(database: LedgerDatabase): PaidRuns {
  const { process } = database
  return {
    has: async (id) => (await database.query(one('SELECT 1 FROM payments WHERE id = ?', toBytes(id)))) !== undefined,
    async beginRun({ id, failedRuns }) {
      const begun = run(BEGIN, process, toBytes(id), failedRuns?.count ?? 0, refundPurpose(id))
      return (await database.commit(begun)) === 1
    },
    beginRefund: async (id) => (await database.commit(run(BEGIN_REFUND, process, toBytes(id)))) === 1,
    isBeingPaidBack: async (id) =>
      (await database.query(one(PAYING_BACK, refundPurpose(id), toBytes(id)))) !== undefined,
    runFailed: async (id, now) => (await database.commit(one<{ n: number }>(FAILED, now, toBytes(id))))?.n ?? 0,
    async endRun(id) {
      await database.commit(run(END, toBytes(id), process))
    },
    giveRun: async (id, to) =>
      (await database.commit(run(GIVE, to, toBytes(id), process), { record: 'run', id })) === 1,
    async abandon(id, error, now) {
      const bytes = toBytes(id)
      const voided = run(ABANDON, error, now, bytes, process)
      const change = together(voided, run(DEFER_UNRUN, bytes, process), one(IS_VOIDED, bytes))
      const [, , isVoided] = await database.commit(change, { record: 'payment', id })
      return isVoided !== undefined
    },
    moveOn: async (id, error, now) =>
      (await database.commit(run(MOVE_ON, error, now, toBytes(id), process), { record: 'payment', id })) === 1,
    isElsewhere: async (id) => (await database.query(one(ELSEWHERE, toBytes(id), process))) !== undefined,
  }
}
