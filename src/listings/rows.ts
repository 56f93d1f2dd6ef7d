import { BoundedMap } from '../lib/bounded-map.ts'
import type { UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingRow, ListingStore, LoadedListing } from '../store/listings.ts'
import { headOf, keptUntil, type ListingEntry } from './set.ts'
import { type ReadEntry, readListing } from './signed-listing.ts'

/** Records kept in memory: about as many as searches show again and again. */
const RECORDS_MAX = 1024

type StoredEntry = {
  row: LoadedListing
  /** Undefined if the row cannot be read. Such a row must be removed. */
  entry: ListingEntry | undefined
}

/**
 * The listings on disk. Changes are written together, a short time after the first of them. Records read recently come
 * from memory.
 */
export class ListingRows {
  readonly #store: ListingStore
  readonly #logger: Logger
  readonly #writeMs: number
  readonly #read = new BoundedMap<string, ReadEntry>(RECORDS_MAX)
  #timer: NodeJS.Timeout | undefined
  #failed = false
  #closed = false

  /** @param options.writeMs how long changes may wait to be written together */
  constructor(options: { writeMs: number }, deps: { store: ListingStore; logger: Logger }) {
    this.#writeMs = options.writeMs
    this.#store = deps.store
    this.#logger = deps.logger
  }

  /**
   * Reads the stored listings as entries of the set, at 3 µs each. Signatures were checked before the rows were written.
   *
   * Rows of an earlier version of the store include their envelopes and must be written again.
   */
  *load(): Generator<StoredEntry> {
    // Share one string among all listings of a seller. Each row has its own copy.
    const sellers = new Map<string, string>()
    for (const row of this.#store.load()) {
      const entry = entryOf(row)
      if (entry !== undefined) {
        const { seller_id } = entry.record
        if (!sellers.has(seller_id)) sellers.set(seller_id, seller_id)
        entry.record.seller_id = sellers.get(seller_id)!
      }
      yield { row, entry }
    }
  }

  /**
   * The complete record of a listing that is held, at 20 µs if it must be read from disk. Undefined if a later version
   * of the code wrote a form that this version cannot read.
   */
  recordOf({ record: { id }, hash }: ListingEntry): ListingRecord | undefined {
    const known = this.#read.get(id)
    if (known?.hash === hash) return known.record
    const envelope = this.#store.envelope(id)
    const read = envelope === undefined ? undefined : readListing(envelope)
    if (read?.ok !== true || read.entry.hash !== hash) return undefined
    this.remember(read.entry)
    return read.entry.record
  }

  /** Keeps a record in memory that may not be on disk yet. */
  remember(entry: ReadEntry): void {
    this.#read.set(entry.record.id, entry)
  }

  /** Queues a row. `party` is who brought it: the parties take turns at the disk. */
  put(row: ListingRow, party?: string): void {
    this.#store.putLater(row, party)
    this.#writeSoon()
  }

  /** Forgets a listing, up to this version. */
  remove({ id, version }: { id: string; version: number }, party?: string): void {
    this.#read.delete(id)
    this.#store.removeLater(id, version, party)
    this.#writeSoon()
  }

  /**
   * Writes what is waiting. If the disk refuses, it logs once and tries again with the next change. The next failure
   * after a success is logged again.
   */
  async write(party?: string): Promise<void> {
    if (party === undefined) {
      clearTimeout(this.#timer)
      this.#timer = undefined
    }
    try {
      await this.#store.flush(party)
      this.#failed = false
    } catch (error) {
      const message = 'listings of others could not be stored; they are kept in memory and written later'
      if (!this.#failed) this.#logger.error({ err: error }, message)
      this.#failed = true
    }
  }

  /** Writes what is waiting, for the last time. */
  async close(): Promise<void> {
    this.#closed = true
    await this.write()
  }

  #writeSoon(): void {
    if (!this.#closed) this.#timer ??= setTimeout(() => void this.write(), this.#writeMs).unref()
  }
}

/**
 * The stored form of a listing first seen at `seenAt`. With `indexLater`, searches find it only after it was indexed.
 */
export function rowOf(
  { record, hash }: ReadEntry,
  envelope: Uint8Array,
  { seenAt, indexLater = false }: { seenAt: UnixMs; indexLater?: boolean },
): ListingRow {
  const { id, seller_id: sellerId, version, state, updated_at: updatedAt, expires_at: expiresAt } = record
  const head = { id, sellerId, version, state, updatedAt, expiresAt, keptUntil: keptUntil(record), hash }
  if (state !== 'active') return { ...head, envelope }
  return { ...head, envelope, ...(indexLater ? { toIndex: seenAt } : { search: searchable(record, seenAt) }) }
}

/** The searchable part of a listing. */
export function searchable(record: ListingRecord, seenAt: UnixMs): NonNullable<ListingRow['search']> {
  const { name, description, tags, protocols, price_atomic: price } = record
  const facts = { name, description, tags, protocols, price }
  return { facts, updatedAt: record.updated_at, expiresAt: record.expires_at, seenAt }
}

function entryOf({ opened, hash, bytes, ...row }: LoadedListing): ListingEntry | undefined {
  if (opened !== undefined) {
    const read = readListing(opened)
    return read.ok ? { ...read.entry, record: headOf(read.entry.record) } : undefined
  }
  const { id, sellerId: seller_id, state, version, updatedAt: updated_at, expiresAt: expires_at } = row
  return { record: { id, seller_id, state, version, updated_at, expires_at }, hash, bytes }
}
