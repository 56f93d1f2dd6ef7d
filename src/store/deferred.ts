import type { Hex } from '../schema/primitives.ts'
import { toBytes, toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { UNRUN } from './payment-row.ts'
import { all, one, run, type Value } from './query.ts'

/**
 * Payments whose buyers get their result when they ask again. Some were to settle first and were answered 2007 (D39).
 * The other buyers had disconnected before the result was ready (D32).
 */
export interface Deferred {
  /** Stores the task of a claimed payment that settles before its run: a crash must not lose paid work. */
  keepTask(id: Hex, task: string): Promise<void>
  /** Durable when it resolves, so before the buyer is answered. */
  defer(id: Hex): Promise<void>
  /**
   * Marks a payment whose buyer cannot ask for the result in the usual way. The buyer had disconnected before the
   * result was ready, or the run failed after settlement.
   */
  unheard(id: Hex): Promise<void>
  /** The oldest `unheard` payment of this peer for this exact task. */
  findUnheard(asked: { peerId: string; agentId: string; task: string }): Promise<Hex | undefined>
  /**
   * Payments under way whose buyers wait for this (`Claim.awaited`), oldest first, at any process. Also payments whose process
   * ended before it had answered.
   */
  findAwaited(awaited: Uint8Array): Promise<Hex[]>
  /** Marks that the run of a payment has ended, and that nobody has to look for it by what its buyer awaits. */
  ended(id: Hex): Promise<void>
  /** Marks that the buyer received the result. */
  taken(id: Hex): Promise<void>
  /** True if the buyer was ever answered 2007. */
  was(id: Hex): Promise<boolean>
  /** The oldest deferred payment of this peer for this exact task, owed or settled, whose result was not delivered. */
  find(asked: { peerId: string; agentId: string; task: string }): Promise<Hex | undefined>
  /** Settled payments of this process that were answered 2007 and whose agent never ran, oldest first. */
  unrun(limit: number): Promise<Hex[]>
}

/** Payments of one buyer for one task that are under way at once. */
const AWAITED_MAX = 16

const KEEP_TASK = `UPDATE payments SET task = ?, running = 1 WHERE id = ? AND state = 'authorized'`
/** Any process may run it once it has settled: see paid-runs.ts. */
const DEFER = 'UPDATE payments SET deferred = 1, running = 0 WHERE id = ? AND deferred IS NULL'
const WAITS = `p.state IN ('owed', 'settled') AND p.refund_tx IS NULL ORDER BY p.no LIMIT 1`
const FIND = `SELECT p.id FROM payments p WHERE p.deferred = 1 AND p.peer_id = ? AND p.agent_id = ? AND p.task = ? AND ${WAITS}`
const FIND_UNHEARD = `
  SELECT p.id FROM payments p LEFT JOIN exchanges e ON e.id = p.exchange_id AND e.payment_no = p.no
  WHERE p.deferred = 3 AND p.peer_id = ? AND p.agent_id = ? AND coalesce(e.input, p.task) = ?
    AND (e.id IS NOT NULL OR p.exchange_id IS NULL) AND ${WAITS}`
const FIND_AWAITED = `
  SELECT id FROM payments WHERE awaited = ? AND state IN ('authorized', 'owed', 'settled') AND refund_tx IS NULL
  ORDER BY no LIMIT ${AWAITED_MAX}`
const UNRUN_DEFERRED = `
  SELECT id FROM payments INDEXED BY payments_deferred_unrun WHERE deferred = 1 AND ${UNRUN} AND owner = ?
  ORDER BY no LIMIT ?`

export function createDeferred(database: LedgerDatabase): Deferred {
  const { process } = database
  const ids = async (sql: string, ...values: Value[]) =>
    (await database.query(all<{ id: Uint8Array }>(sql, ...values))).map(({ id }) => toHex(id))
  const mark = (value: number, was: string) => async (id: Hex) => {
    await database.commit(
      run(`UPDATE payments SET deferred = ?, awaited = NULL WHERE id = ? AND ${was}`, value, toBytes(id)),
    )
  }
  return {
    async keepTask(id, task) {
      await database.commit(run(KEEP_TASK, task, toBytes(id)))
    },
    async defer(id) {
      await database.commit(run(DEFER, toBytes(id)))
    },
    unheard: mark(3, 'deferred IS NULL'),
    findUnheard: async ({ peerId, agentId, task }) => (await ids(FIND_UNHEARD, peerId, agentId, task))[0],
    findAwaited: (awaited) => ids(FIND_AWAITED, awaited),
    async ended(id) {
      await database.commit(run('UPDATE payments SET awaited = NULL WHERE id = ?', toBytes(id)))
    },
    taken: mark(2, '(deferred IN (1, 3) OR awaited IS NOT NULL)'),
    async was(id) {
      const asked = one('SELECT 1 FROM payments WHERE id = ? AND deferred IS NOT NULL', toBytes(id))
      return (await database.query(asked)) !== undefined
    },
    find: async ({ peerId, agentId, task }) => (await ids(FIND, peerId, agentId, task))[0],
    unrun: (limit) => ids(UNRUN_DEFERRED, process, limit),
  }
}
