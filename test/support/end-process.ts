import type { Database } from '../../src/store/database.ts'

/** The process that had the ledger has ended: what it did is left behind. The next one uses the same file. */
export function endProcess(database: Database): Database {
  database.run('DELETE FROM processes')
  return database
}
