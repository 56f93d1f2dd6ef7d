import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { openError } from './file-errors.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { runOnSqlite } from './sqlite-query.ts'

/** A database file that is read and not changed. */
type ReadOnlyDatabase = Pick<LedgerDatabase, 'query'> & {
  /** The version of its tables. */
  schema: number
  has(table: string): boolean
  /** The first finding of SQLite's quick_check: `ok` if there is none. */
  damage(): string
  close(): void
}

/**
 * Opens a database file as it is, of any version of stoa. Undefined: there is none.
 *
 * A file that was closed cleanly is read without its log, so that no file is made beside it.
 *
 * @throws StoreError
 */
export function openReadOnly(path: string): ReadOnlyDatabase | undefined {
  if (!existsSync(path)) return undefined
  const url = pathToFileURL(path)
  if (!existsSync(`${path}-wal`)) url.searchParams.set('immutable', '1')
  try {
    const sqlite = new DatabaseSync(url, { readOnly: true })
    const tables = sqlite.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[]
    const names = new Set(tables.map(({ name }) => name))
    const { user_version: schema } = sqlite.prepare('PRAGMA user_version').get() as { user_version: number }
    return {
      schema,
      query: async (query) => runOnSqlite((sql) => sqlite.prepare(sql), query),
      has: (table) => names.has(table),
      damage: () => Object.values(sqlite.prepare('PRAGMA quick_check(1)').get() as object).join(),
      close: () => sqlite.close(),
    }
  } catch (error) {
    throw openError(path, error)
  }
}
