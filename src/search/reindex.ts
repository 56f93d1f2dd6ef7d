import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { searchable } from '../listings/row.ts'
import { readListing } from '../listings/signed-listing.ts'
import type { ListingStore, SearchOf, StoredEnvelope } from '../store/listings.ts'

/** Rows read at once. Those that there is no time left to index in one transaction are read again (T32). */
const ROWS_AT_ONCE = 32

/**
 * Builds the search index anew where it is missing, is of another version of the code, or was left half done. What comes
 * in meanwhile is indexed as ever. Until it is done, searches find what is there already.
 */
export async function reindexListings(
  deps: { store: ListingStore; clock: Clock; logger: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, logger } = deps
  if (store.index.isWhole()) return
  const startedAt = clock.now()
  await store.index.reset()
  let count = 0
  for (let after: string | undefined = ''; after !== undefined; ) {
    await nextTurn()
    if (signal.aborted) return
    const rows: StoredEnvelope[] = store.page(after, ROWS_AT_ONCE)
    const indexed = rows.length === 0 ? 0 : await store.reindex(rows, (row) => searchOf(row, startedAt))
    count += indexed
    after = rows[indexed - 1]?.id
  }
  await store.index.setWhole()
  if (count > 0) logger.info({ listings: count }, 'the search index has been built anew')
}

/**
 * Indexes some of what was stored in haste, as a replica does that catches up with a whole market.
 *
 * @returns whether some is left
 */
export async function indexWaiting(store: ListingStore): Promise<boolean> {
  const rows = store.toIndex(ROWS_AT_ONCE)
  if (rows.length === 0) return false
  const indexed = await store.reindex(rows, (row) => searchOf(row, row.seenAt))
  return indexed < rows.length || rows.length === ROWS_AT_ONCE
}

function searchOf({ state, envelope }: StoredEnvelope, seenAt: UnixMs): SearchOf {
  const read = state === 'active' ? readListing(envelope) : undefined
  if (read?.ok !== true) return { sellerId: '' }
  const { record } = read.entry
  return { sellerId: record.seller_id, search: searchable(record, seenAt) }
}
