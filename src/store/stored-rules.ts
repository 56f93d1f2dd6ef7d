import { entry, putEntry } from './entries.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { lock, steps } from './query.ts'

/** The rules of the budget that were changed while a node ran, as one text. */
export type StoredRulesText = {
  load(): Promise<string | undefined>
  /**
   * Puts the text that `edit` makes of the one stored now, in one change: no other process changes it in between.
   *
   * @param edit may run more than once
   * @returns the new text, durable when the promise resolves
   */
  change(edit: (text: string | undefined) => string): Promise<string>
}

const KEY = 'budget.rules'

/** The text of the rules as it is now, which another process of this ledger may have changed, as a subquery. */
export const RULES_TEXT = `(SELECT value FROM kv WHERE key = '${KEY}')`

export function createStoredRules(database: LedgerDatabase): StoredRulesText {
  const stored = entry(KEY)
  return {
    load: () => database.query(stored),
    change: (edit) =>
      database.commit(
        steps(function* () {
          yield* lock(KEY)
          const text = edit(yield* stored)
          yield* putEntry(KEY, text)
          return text
        }),
        { record: 'budget', id: '' },
      ),
  }
}
