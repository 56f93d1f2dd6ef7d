import type { Hex } from '../schema/primitives.ts'
import { toBytes, toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { one, together } from './query.ts'

/** The transactions in which payments were settled, as their buyers ask for them (D46). */
export interface NamedTransactions {
  /** Those of these payments that this peer made and that have a transaction. */
  transactionsOf(ids: readonly Hex[], peerId: string): Promise<{ id: Hex; txHash: Hex }[]>
}

/** One statement for each payment: each engine writes a list of values in its own way. */
const TRANSACTION = 'SELECT id, tx_hash FROM payments WHERE id = ? AND peer_id = ? AND tx_hash IS NOT NULL'
type NamedRow = { id: Uint8Array; tx_hash: Uint8Array }

export function namedTransactions(database: LedgerDatabase): NamedTransactions {
  return {
    async transactionsOf(ids, peerId) {
      const rows = await database.query(together(...ids.map((id) => one<NamedRow>(TRANSACTION, toBytes(id), peerId))))
      return rows.flatMap((row) => (row === undefined ? [] : [{ id: toHex(row.id), txHash: toHex(row.tx_hash) }]))
    },
  }
}
