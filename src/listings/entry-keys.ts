import { type ElementKey, elementKey, KEY_BYTES, writeElementKey } from '../protocols/sync/reconcile/element-key.ts'
import { RangeIndex } from '../protocols/sync/reconcile/range-index.ts'
import type { ListingEntry, ListingSet } from './set.ts'

/** The key of an entry in reconciliation. */
export function keyOf({ record, hash }: ListingEntry): ElementKey {
  return elementKey(record.updated_at, hash)
}

/** Builds the index of all entries of a set. */
export function indexOf(set: ListingSet): RangeIndex {
  const keys = Buffer.alloc(set.size * KEY_BYTES)
  let at = 0
  for (const { record, hash } of set.entries()) {
    writeElementKey(keys, at, record.updated_at, hash)
    at += KEY_BYTES
  }
  return RangeIndex.ofPacked(keys)
}
