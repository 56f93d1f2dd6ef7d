import type { ListingRecord } from '../schema/listing.ts'
import type { ListingStore } from '../store/listings.ts'
import type { ListingEntry } from './set.ts'
import { type ReadEntry, readListing } from './signed-listing.ts'

/** Records kept beside the disk: as many as searches show again and again. */
const RECORDS_MAX = 1024

/** Reads listings back from the store: 20 µs each, and those read lately at once. */
export class StoredRecords {
  readonly #store: Pick<ListingStore, 'envelope'>
  readonly #read = new Map<string, ReadEntry>()

  constructor(store: Pick<ListingStore, 'envelope'>) {
    this.#store = store
  }

  /** All of a listing that is held. Undefined where a later version of the code has written what this cannot read. */
  recordOf({ record: { id }, hash }: ListingEntry): ListingRecord | undefined {
    const known = this.#read.get(id)
    if (known?.hash === hash) return known.record
    const envelope = this.#store.envelope(id)
    const read = envelope === undefined ? undefined : readListing(envelope)
    if (read?.ok !== true || read.entry.hash !== hash) return undefined
    this.remember(read.entry)
    return read.entry.record
  }

  /** One that may not be on disk yet. */
  remember(entry: ReadEntry): void {
    this.#read.delete(entry.record.id)
    this.#read.set(entry.record.id, entry)
    if (this.#read.size > RECORDS_MAX) this.#read.delete(this.#read.keys().next().value!)
  }

  forget(id: string): void {
    this.#read.delete(id)
  }
}
