import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { ListingStore, StoredEnvelope } from '../store/listings.ts'
import { searchable } from './listing-row.ts'
import { readListing } from './signed-listing.ts'

/** Rows of one transaction, and their bytes: about 10 ms. Calls wait for it, since it holds the event loop (T32). */
const ROWS_AT_ONCE = 100
const BYTES_AT_ONCE = 64 * 1024

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
    const rows: StoredEnvelope[] = bounded(store.page(after, ROWS_AT_ONCE))
    await store.reindex(rows.map((row) => indexable(row, startedAt)))
    count += rows.length
    after = rows.at(-1)?.id
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
  const waiting = store.toIndex(ROWS_AT_ONCE)
  const rows = bounded(waiting)
  if (rows.length > 0) await store.reindex(rows.map((row) => indexable(row, row.seenAt)))
  return rows.length < waiting.length || waiting.length === ROWS_AT_ONCE
}

/** The first of these rows, as many as are indexed at once: at least one. */
function bounded<Row extends StoredEnvelope>(rows: readonly Row[]): Row[] {
  let bytes = 0
  const end = rows.findIndex(({ envelope }, index) => {
    bytes += envelope.length
    return index > 0 && bytes > BYTES_AT_ONCE
  })
  return end === -1 ? [...rows] : rows.slice(0, end)
}

function indexable({ id, version, state, envelope }: StoredEnvelope, seenAt: UnixMs) {
  const read = state === 'active' ? readListing(envelope) : undefined
  if (read?.ok !== true) return { id, version, sellerId: '' }
  const { record } = read.entry
  return { id, version, sellerId: record.seller_id, search: searchable(record, seenAt) }
}
