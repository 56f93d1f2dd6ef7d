import type { Hex } from '../schema/primitives.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { one, run } from './query.ts'

/**
 * Which process runs the work of a payment. `running` is 1 while the owner of a payment that settles first settles or
 * runs it. The owner of any other payment runs it while it is authorized.
 */
export interface PaidRuns {
  /** Makes this process the one that runs settled work. False: another process runs it, or there is nothing to run. */
  beginRun(id: Hex): Promise<boolean>
  /** Lets any process run this work, because its run here ended without a result. */
  endRun(id: Hex): Promise<void>
  /** True while another process that is alive has this payment under way. */
  isElsewhere(id: Hex): Promise<boolean>
}

const BEGIN = `
  UPDATE payments SET owner = ?1, running = 1
  WHERE id = ?2 AND state = 'settled' AND exchange_id IS NULL AND refund_tx IS NULL
    AND (running = 0 OR owner = ?1 OR ${LEFT_BEHIND})`
const END = 'UPDATE payments SET running = 0 WHERE id = ? AND owner = ? AND running = 1'
const ELSEWHERE = `
  SELECT 1 FROM payments WHERE id = ? AND owner <> ? AND NOT ${LEFT_BEHIND} AND exchange_id IS NULL
    AND (state = 'authorized' OR (running = 1 AND state IN ('owed', 'settled')))`

export function paidRuns(database: LedgerDatabase): PaidRuns {
  const { process } = database
  return {
    beginRun: async (id) => (await database.commit(run(BEGIN, process, toBytes(id)))) === 1,
    async endRun(id) {
      await database.commit(run(END, toBytes(id), process))
    },
    isElsewhere: async (id) => (await database.query(one(ELSEWHERE, toBytes(id), process))) !== undefined,
  }
}
