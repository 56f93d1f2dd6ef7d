import type { LedgerDatabase } from './ledger-database.ts'
import { one, type Query, run } from './query.ts'

/** The rules of the budget that were changed while a node ran, as one text. */
export type StoredRulesText = {
  load(): Promise<string | undefined>
  /** Durable when the promise resolves. */
  save(text: string): Promise<void>
}

const KEY = 'budget.rules'
const GET = 'SELECT value FROM kv WHERE key = ?'
const PUT = 'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'

/** The text of the rules as it is now, which another process of this ledger may have changed. */
export function rulesText(): Query<string | undefined> {
  return one<{ value: string }>(GET, KEY).map((row) => row?.value)
}

export function createStoredRules(database: LedgerDatabase): StoredRulesText {
  return {
    load: () => database.query(rulesText()),
    save: async (text) => void (await database.commit(run(PUT, KEY, text), { record: 'budget', id: '' })),
  }
}
