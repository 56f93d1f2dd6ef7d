import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { searchable } from '../listings/rows.ts'
import { readListing } from '../listings/signed-listing.ts'
import type { ListingStore, SearchOf, StoredEnvelope } from '../store/listings.ts'

/** Rows read at once. Rows that did not fit into the time of one transaction are read again (T32). */
const ROWS_AT_ONCE = 32

/**
 * Rebuilds the search index if it is missing, unfinished or from another version of the code. Listings that arrive
 * meanwhile are indexed as usual. Until the rebuild ends, searches find only what is indexed already.
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
  if (count > 0) logger.info({ count }, 'the search index was rebuilt')
}

/**
 * Indexes some of the listings that were stored without being indexed, as during catch-up with a whole market.
 *
 * @returns whether some listings are still left
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
