import { randomUUID } from 'node:crypto'
import type { LedgerDatabase } from './ledger-database.ts'
import { one, run, together } from './query.ts'

export const ID_KEY = 'ledger_id'
const PUT = 'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING'
const GET = 'SELECT value FROM kv WHERE key = ?'

/** The id of a ledger. One without an id, which is new or of an early version, receives `expected` or a new one. */
export async function ledgerId(database: LedgerDatabase, expected?: string): Promise<string> {
  const [, row] = await database.commit(
    together(run(PUT, ID_KEY, expected ?? randomUUID()), one<{ value: string }>(GET, ID_KEY)),
  )
  return row!.value
}
