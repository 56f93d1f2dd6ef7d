import type { UnixMs } from '../lib/clock.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingRow } from '../store/listings.ts'
import { keptUntil } from './set.ts'
import type { ReadEntry } from './signed-listing.ts'

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
