import { type ElementKey, elementKey, KEY_BYTES, writeElementKey } from '../protocols/sync/reconcile/element-key.ts'
import { RangeIndex } from '../protocols/sync/reconcile/range-index.ts'
import type { ListingEntry, ListingSet } from './set.ts'

/** What stands for an entry in reconciliation. */
export function keyOf({ record, hash }: ListingEntry): ElementKey {
  return elementKey(record.updated_at, hash)
}

/** The index of all that a set holds. */
export function indexOf(set: ListingSet): RangeIndex {
  const keys = Buffer.alloc(set.size * KEY_BYTES)
  let at = 0
  for (const { record, hash } of set.entries()) {
    writeElementKey(keys, at, record.updated_at, hash)
    at += KEY_BYTES
  }
  return RangeIndex.ofPacked(keys)
}
