import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'
import { createListingIndex, type IndexedListing, type ListingIndex } from './listing-index.ts'

/** A listing on disk: its signed envelope and what must be known of it without opening that. */
export type ListingRow = {
  id: string
  sellerId: string
  version: number
  state: 'active' | 'delisted'
  /** When the row, shown or not, may be forgotten. */
  keptUntil: UnixMs
  envelope: Uint8Array
  /** What of it can be searched; nothing of a tombstone. Not read back. */
  search?: Pick<IndexedListing, 'facts' | 'updatedAt' | 'expiresAt' | 'seenAt'>
}

/** The replica on disk. */
export interface ListingStore {
  /** What can be searched; kept in step with the rows, in the same transactions. */
  readonly index: ListingIndex
  /** Indexes rows that `page` gave, as far as they still are what they were. */
  reindex(rows: readonly ListingRow[]): Promise<void>
  /** Rows in the order of their ids, at most `limit`, after the id given ('' for the first). */
  page(afterId: string, limit: number): ListingRow[]
  /** Writes one of our own, and its version as the highest we have signed, before resolving. */
  putOwn(row: ListingRow): Promise<void>
  /** The highest version ever given to `putOwn`; 0 before the first. */
  ownVersion(): number
  /** Remembers to write a row or to delete one up to a version. `flush` does it; lost before that, peers tell us again. */
  putLater(row: ListingRow): void
  removeLater(id: string, version: number): void
  /** Writes what is remembered. Where the disk refuses, it stays remembered. */
  flush(): Promise<void>
}

const OWN_VERSION_KEY = 'listings.own_version'
/** Changes in one transaction, each about 0.1 ms with its index: few enough that the event loop does not notice. */
const CHANGES_MAX = 100

/** A newer row is never replaced by an older one, in whatever order they are written. */
const PUT = `
  INSERT INTO listings (id, seller_id, version, expires_at, state, envelope) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET seller_id = excluded.seller_id, version = excluded.version,
    expires_at = excluded.expires_at, state = excluded.state, envelope = excluded.envelope
  WHERE excluded.version >= listings.version`
const REMOVE = 'DELETE FROM listings WHERE id = ? AND version <= ?'
const PAGE = `
  SELECT id, seller_id AS sellerId, version, expires_at AS keptUntil, state, envelope
  FROM listings WHERE id > ? ORDER BY id LIMIT ?`
const IS_STILL = 'SELECT 1 FROM listings WHERE id = ? AND version = ?'
const PUT_KEY = 'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'
const GET_KEY = 'SELECT value FROM kv WHERE key = ?'

type Change = { put: ListingRow } | { remove: number }

export function createListingStore(database: Database): ListingStore {
  const changes = new Map<string, Change>()
  const index = createListingIndex(database)

  function put({ id, sellerId, version, keptUntil, state, envelope, search }: ListingRow): void {
    const { changes: written } = database.prepare(PUT).run(id, sellerId, version, keptUntil, state, envelope)
    if (written === 0) return
    if (state === 'active' && search !== undefined) index.put({ id, sellerId, ...search })
    else index.hide(id)
  }

  function apply(id: string, change: Change): void {
    if ('put' in change) put(change.put)
    else if (database.prepare(REMOVE).run(id, change.remove).changes > 0) index.hide(id)
  }

  function ownVersion(): number {
    const row = database.prepare(GET_KEY).get(OWN_VERSION_KEY) as { value: string } | undefined
    return row === undefined ? 0 : Number(row.value)
  }

  return {
    index,

    async reindex(rows) {
      await database.write(() => {
        for (const { id, sellerId, version, search } of rows) {
          const isStill = database.prepare(IS_STILL).get(id, version) !== undefined
          if (isStill && search !== undefined) index.put({ id, sellerId, ...search })
        }
      })
    },

    page: (afterId, limit) => database.prepare(PAGE).all(afterId, limit) as unknown as ListingRow[],

    async putOwn(row) {
      await database.write(() => {
        put(row)
        database.prepare(PUT_KEY).run(OWN_VERSION_KEY, String(Math.max(row.version, ownVersion())))
      })
    },

    ownVersion,

    putLater: (row) => void changes.set(row.id, { put: row }),
    removeLater: (id, version) => void changes.set(id, { remove: version }),

    async flush() {
      while (changes.size > 0) {
        const group = [...changes.entries().take(CHANGES_MAX)]
        await database.write(() => {
          for (const [id, change] of group) apply(id, change)
        })
        for (const [id, change] of group) if (changes.get(id) === change) changes.delete(id)
      }
    },
  }
}
