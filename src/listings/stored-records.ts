import { BoundedMap } from '../lib/bounded-map.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingStore } from '../store/listings.ts'
import type { ListingEntry } from './set.ts'
import { type ReadEntry, readListing } from './signed-listing.ts'

/** Records kept in memory: about as many as searches show again and again. */
const RECORDS_MAX = 1024

/** Reads listings from the store at 20 µs each. Recently read listings come from memory. */
export class StoredRecords {
  readonly #store: Pick<ListingStore, 'envelope'>
  readonly #read = new BoundedMap<string, ReadEntry>(RECORDS_MAX)

  constructor(store: Pick<ListingStore, 'envelope'>) {
    this.#store = store
  }

  /**
   * The complete record of a listing that is held. Undefined if a later version of the code wrote a form that this
   * version cannot read.
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

  forget(id: string): void {
    this.#read.delete(id)
  }
}
