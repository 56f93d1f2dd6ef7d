import type { Hex } from '../schema/primitives.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { one } from './query.ts'

/** The accounts that agents were paid by before. */
export interface Payees {
  /** Who was paid for the last result of an agent. Undefined: no result was ever bought. */
  payeeBefore(agentId: string): Promise<Hex | undefined>
}

// Worded like the index of receipts: a purchase with a result has a receipt or a note of why there is none.
const PAYEE = `
  SELECT pay_to FROM authorizations WHERE agent_id = ? AND (receipt IS NOT NULL OR receipt_note IS NOT NULL)
  ORDER BY order_no DESC LIMIT 1`

export function createPayees(database: LedgerDatabase): Payees {
  return {
    payeeBefore: async (agentId) => (await database.query(one<{ pay_to: string }>(PAYEE, agentId)))?.pay_to as Hex,
  }
}
