import { randomUUID } from 'node:crypto'
import { addEntry, entry } from './entries.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { together } from './query.ts'

export const ID_KEY = 'ledger_id'

/** The id of a ledger. One without an id, which is new or of an early version, receives `expected` or a new one. */
export async function ledgerId(database: LedgerDatabase, expected?: string): Promise<string> {
  const [, id] = await database.commit(together(addEntry(ID_KEY, expected ?? randomUUID()), entry(ID_KEY)))
  return id!
}
