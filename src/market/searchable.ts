import type { UnixMs } from '../lib/clock.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingRow } from '../store/listings.ts'

/** What of a listing can be searched. */
export function searchable(record: ListingRecord, seenAt: UnixMs): NonNullable<ListingRow['search']> {
  const {
    name,
    description,
    tags,
    protocols,
    price_atomic: price,
    updated_at: updatedAt,
    expires_at: expiresAt,
  } = record
  return { facts: { name, description, tags, protocols, price }, updatedAt, expiresAt, seenAt }
}
