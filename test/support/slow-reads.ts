import { pause } from '../../src/lib/wait.ts'
import type { Database } from '../../src/store/database.ts'

/** A database whose answers take their way: what they say may have changed when they arrive. */
export function slowReads(database: Database, ms = 5): Database {
  return {
    ...database,
    async query(query) {
      const read = await database.query(query)
      await pause(ms)
      return read
    },
  }
}
