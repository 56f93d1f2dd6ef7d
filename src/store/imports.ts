import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'

export type StoredImport = { id: string; listing: string; removed: boolean }

/** Agents that the operator added by hand, without a signed listing. A removed agent is kept for its orders. */
export interface ImportStore {
  all(): StoredImport[]
  put(id: string, listing: string, now: UnixMs): Promise<void>
  remove(id: string): Promise<void>
}

export function createImportStore(database: Database): ImportStore {
  return {
    all: () =>
      database
        .prepare('SELECT id, listing, removed FROM imported_agents')
        .all()
        .map((row) => {
          const { id, listing, removed } = row as { id: string; listing: string; removed: number }
          return { id, listing, removed: removed === 1 }
        }),
    put: (id, listing, now) =>
      database.write(() => {
        database
          .prepare(`
            INSERT INTO imported_agents (id, listing, created_at, removed) VALUES (?, ?, ?, 0)
            ON CONFLICT (id) DO UPDATE SET listing = excluded.listing, removed = 0`)
          .run(id, listing, now)
      }),
    remove: (id) =>
      database.write(() => {
        database.prepare('UPDATE imported_agents SET removed = 1 WHERE id = ?').run(id)
      }),
  }
}
