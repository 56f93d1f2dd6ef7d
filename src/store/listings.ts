import type { UnixMs } from '../lib/clock.ts'
import { Pace } from '../lib/pace.ts'
import type { Database } from './database.ts'
import { type Entry, GET_ENTRY, PUT_ENTRY } from './entries.ts'
import { ListingChanges } from './listing-changes.ts'
import { createListingIndex, type IndexedListing, type ListingIndex } from './listing-index.ts'

/** The facts of a stored listing that are known without opening its envelope. */
type StoredHead = {
  id: string
  sellerId: string
  version: number
  state: 'active' | 'delisted'
  updatedAt: UnixMs
  expiresAt: UnixMs
  /** When the row may be forgotten, shown or not. */
  keptUntil: UnixMs
  /** SHA-256, in hex, of what the owner signed. */
  hash: string
}

/** A listing on disk. */
export type ListingRow = StoredHead & {
  envelope: Uint8Array
  /** The searchable parts; absent for a tombstone. Not read back. */
  search?: Pick<IndexedListing, 'facts' | 'updatedAt' | 'expiresAt' | 'seenAt'>
  /** Used instead of `search`: when the listing was met. It is searchable once `reindex` has processed it. */
  toIndex?: UnixMs
}

/** `opened` is set only for rows of an earlier version. The other fields of such rows are zero or empty. */
export type LoadedListing = StoredHead & { bytes: number; opened?: Uint8Array }
export type StoredEnvelope = { id: string; version: number; state: 'active' | 'delisted'; envelope: Uint8Array }

/** The replica on disk. */
export interface ListingStore {
  /** The search index. It changes in the same transactions as the rows, except for rows that wait `toIndex`. */
  readonly index: ListingIndex
  /** All stored listings. Read the iterator to its end at once. */
  load(): Iterable<LoadedListing>
  /** Up to `limit` rows in the order of ids, after the given id ('' for the first). */
  page(afterId: string, limit: number): StoredEnvelope[]
  /** Rows to index, and when they were met. */
  toIndex(limit: number): (StoredEnvelope & { seenAt: UnixMs })[]
  /**
   * Indexes rows from `page` or `toIndex` that have not changed since. Rows without `search` are hidden.
   *
   * @returns how many rows were processed, from the first on: it stops at its time limit
   */
  reindex<Row extends Pick<StoredEnvelope, 'id' | 'version'>>(
    rows: readonly Row[],
    read: (row: Row) => SearchOf,
  ): Promise<number>
  /** Merges some recent index entries. @returns true if more may be left to merge */
  merge(): Promise<boolean>
  /** The envelope of a listing, on disk or waiting to be written. */
  envelope(id: string): Uint8Array | undefined
  /** The written listing with this time and hash prefix. @param hash 16 bytes */
  find(updatedAt: UnixMs, hash: Uint8Array): StoredEnvelope | undefined
  /** Writes a listing of this node, and its version as the highest signed. Durable when it resolves. */
  putOwn(row: ListingRow): Promise<void>
  /** The highest version ever given to `putOwn`; 0 before the first. */
  ownVersion(): number
  /** Queues a write of a row, or a removal up to a version, for `flush`. If the queue is lost, peers send it again. */
  putLater(row: ListingRow, party?: string): void
  removeLater(id: string, version: number, party?: string): void
  /**
   * Writes what was queued so far, of all or of one party. The parties take turns, so that none waits for what another has
   * queued (T29). If the disk refuses, the changes stay queued.
   */
  flush(party?: string): Promise<void>
  /** How many changes of a party are queued. */
  waiting(party: string): number
}

export type SearchOf = { sellerId: string; search?: ListingRow['search'] }

const OWN_VERSION_KEY = 'listings.own_version'
/** Rows and milliseconds per transaction. The transaction blocks the event loop, so calls wait for it (T32). */
const ROWS_AT_ONCE = 200
const WRITE_MS = 5
/** Milliseconds per transaction while calls come in. Merging and the commit add twice that time. */
const WRITE_BESIDE_CALLS_MS = 1
/** Amount of merging per step, in listings, while nothing is indexed. */
const MERGED_AT_ONCE = 4
/** All index work is paced as one party, because the sender of a stored listing is not known. */
const PARTY = 'store'

/** Never replaces a newer row by an older one, in any order of writes. */
const PUT = `
  INSERT INTO listings (id, seller_id, version, state, updated_at, valid_until, expires_at, hash, envelope, to_index)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET seller_id = excluded.seller_id, version = excluded.version, state = excluded.state,
    updated_at = excluded.updated_at, valid_until = excluded.valid_until, expires_at = excluded.expires_at,
    hash = excluded.hash, envelope = excluded.envelope, to_index = excluded.to_index
  WHERE excluded.version >= listings.version`
const REMOVE = 'DELETE FROM listings WHERE id = ? AND version <= ?'
const LOAD = `
  SELECT id, seller_id AS sellerId, version, state, updated_at AS updatedAt, valid_until AS expiresAt,
    expires_at AS keptUntil, lower(hex(hash)) AS hash, length(envelope) AS bytes, iif(hash IS NULL, envelope, NULL) AS opened
  FROM listings`
const ENVELOPE = 'id, version, state, envelope'
const PAGE = `SELECT ${ENVELOPE} FROM listings WHERE id > ? ORDER BY id LIMIT ?`
const TO_INDEX = `
  SELECT ${ENVELOPE}, to_index AS seenAt FROM listings WHERE to_index IS NOT NULL ORDER BY to_index LIMIT ?`
const GET = 'SELECT envelope FROM listings WHERE id = ?'
const FIND = `SELECT ${ENVELOPE} FROM listings WHERE updated_at = ? AND hash >= ? AND hash < ?`
const INDEXED = 'UPDATE listings SET to_index = NULL WHERE id = ? AND version = ? RETURNING 1'

type Change = { put: ListingRow } | { remove: number }
type LoadedRow = Omit<LoadedListing, 'opened'> & { opened: Uint8Array | null }

function columnsOf({
  id,
  sellerId,
  version,
  state,
  updatedAt,
  expiresAt,
  keptUntil,
  envelope,
  hash,
  toIndex,
}: ListingRow) {
  return [id, sellerId, version, state, updatedAt, expiresAt, keptUntil, bytesOf(hash), envelope, toIndex ?? null]
}

/** @param pace the pace for writing listings of others */
export function createListingStore(database: Database, pace = new Pace()): ListingStore {
  const changes = new ListingChanges<Change>()
  const index = createListingIndex(database)
  let writing: Promise<void> | undefined
  /** True if something was indexed or hidden since everything was merged. */
  let mayMerge = true

  function put(row: ListingRow): void {
    const { id, sellerId, state, search, toIndex } = row
    const { changes: written } = database.run(PUT, ...columnsOf(row))
    if (written === 0 || toIndex !== undefined) return
    mayMerge = true
    if (state === 'active' && search !== undefined) index.put({ id, sellerId, ...search })
    else index.hide(id)
  }

  function apply(id: string, change: Change): void {
    if ('put' in change) put(change.put)
    else if (database.run(REMOVE, id, change.remove).changes > 0) index.hide(id)
  }

  function ownVersion(): number {
    const row = database.one<Entry>(GET_ENTRY, OWN_VERSION_KEY)
    return row === undefined ? 0 : Number(row.value)
  }

  /** Changes as many rows as fit into one transaction. `merge`: merges index entries in proportion. @returns these rows */
  function write<Row>(rows: readonly Row[], change: (row: Row) => void, { merge }: { merge: boolean }) {
    const atEnd = (count: number) => {
      if (merge) mayMerge = index.merge(count)
    }
    return writeTimed({ rows, change, atEnd }, { database, pace })
  }

  async function writeSome(): Promise<void> {
    const group = changes.next(ROWS_AT_ONCE)
    const indexes = group.some(([, change]) => !('put' in change) || change.put.toIndex === undefined)
    const written = await write(group, ([id, change]) => apply(id, change), { merge: indexes })
    for (const [id, change] of written) changes.done(id, change)
  }

  return {
    index,

    *load() {
      for (const row of database.prepare(LOAD).iterate() as Iterable<LoadedRow>) {
        const { opened, ...head } = row
        if (opened === null) yield head
        else yield { ...head, updatedAt: 0, expiresAt: 0, opened }
      }
    },

    page: (afterId, limit) => database.all<StoredEnvelope>(PAGE, afterId, limit),

    toIndex: (limit) => database.all<StoredEnvelope & { seenAt: UnixMs }>(TO_INDEX, limit),

    async reindex(rows, read) {
      const indexOne = (row: (typeof rows)[number]) => {
        const { id, version } = row
        if (database.one(INDEXED, id, version) === undefined) return
        const { sellerId, search } = read(row)
        if (search !== undefined) index.put({ id, sellerId, ...search })
        else index.hide(id)
      }
      return (await write(rows, indexOne, { merge: true })).length
    },

    async merge() {
      if (!mayMerge) return false
      const mergeSome = (listings: number) => {
        mayMerge = index.merge(listings)
      }
      await write([MERGED_AT_ONCE], mergeSome, { merge: false })
      return mayMerge
    },

    envelope(id) {
      const change = changes.get(id)
      if (change !== undefined) return 'put' in change ? change.put.envelope : undefined
      return database.one<{ envelope: Uint8Array }>(GET, id)?.envelope
    },

    find(updatedAt, hash) {
      const rest = 32 - hash.length
      const [from, until] = [0, 0xff].map((byte) => Buffer.concat([hash, Buffer.alloc(rest, byte)]))
      return database.one<StoredEnvelope>(FIND, updatedAt, from!, until!)
    },

    async putOwn(row) {
      await database.write(() => {
        put(row)
        database.run(PUT_ENTRY, OWN_VERSION_KEY, String(Math.max(row.version, ownVersion())))
      })
    },

    ownVersion,

    putLater: (row, party) => changes.put(row.id, { put: row }, party),
    removeLater: (id, version, party) => changes.put(id, { remove: version }, party),
    waiting: (party) => changes.count(party),

    async flush(party) {
      const waited = changes.ids(party)
      for (;;) {
        // What is queued during a write is not waited for: somebody else may queue without end.
        while (waited.length > 0 && changes.get(waited.at(-1)!) === undefined) waited.pop()
        if (waited.length === 0) return
        writing ??= writeSome().finally(() => {
          writing = undefined
        })
        await writing
      }
    },
  }
}

/** Applies the change to each row until the time of one transaction is over. @returns the changed rows */
async function writeTimed<Row>(
  { rows, change, atEnd }: { rows: readonly Row[]; change: (row: Row) => void; atEnd: (count: number) => void },
  { database, pace }: { database: Database; pace: Pace },
): Promise<readonly Row[]> {
  let count = 0
  await pace.count(PARTY, async () => {
    let from = 0
    await database.write(() => {
      count = 0
      from = performance.now()
      const until = from + (pace.isCalled ? WRITE_BESIDE_CALLS_MS : WRITE_MS)
      while (count < rows.length && (count === 0 || performance.now() < until)) change(rows[count++]!)
      atEnd(count)
    })
    // The time of the commit counts too.
    return performance.now() - from
  })
  return rows.slice(0, count)
}

function bytesOf(hash: string): Uint8Array {
  return Buffer.from(hash, 'hex')
}
