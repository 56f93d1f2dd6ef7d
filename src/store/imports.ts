import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'

type StoredImport = { id: string; listing: string }

/** Agents that the operator added by hand, without a signed listing. A removed agent is kept for its orders. */
export interface ImportStore {
  active(): StoredImport[]
  /** The listing of an agent, also of a removed one. */
  listing(id: string): string | undefined
  put(id: string, listing: string, now: UnixMs): Promise<void>
  remove(id: string): Promise<void>
}

const PUT = `
  INSERT INTO imported_agents (id, listing, created_at, removed) VALUES (?, ?, ?, 0)
  ON CONFLICT (id) DO UPDATE SET listing = excluded.listing, removed = 0`

export function createImportStore(database: Database): ImportStore {
  return {
    active: () => database.all<StoredImport>('SELECT id, listing FROM imported_agents WHERE removed = 0'),
    listing: (id) => database.one<StoredImport>('SELECT listing FROM imported_agents WHERE id = ?', id)?.listing,
    put: (id, listing, now) => database.writeOne(PUT, id, listing, now),
    remove: (id) => database.writeOne('UPDATE imported_agents SET removed = 1 WHERE id = ?', id),
  }
}
