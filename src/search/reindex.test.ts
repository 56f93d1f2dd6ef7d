import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { listingRecord, signRecord } from '../../test/support/listings.ts'
import { silentLogger } from '../lib/logger.ts'
import { rowOf } from '../listings/rows.ts'
import { createIdentity } from '../p2p/identity.ts'
import { openDatabase } from '../store/database.ts'
import { createListingSearch } from '../store/listing-search.ts'
import { createListingStore } from '../store/listings.ts'
import { reindexListings } from './reindex.ts'

const never = new AbortController().signal
const everything = { after: 0, limit: 1000, skeleton: '' }

/** A database as it was before there was an index: rows, and nothing beside them. */
async function stored(count: number, description = 'text') {
  const clock = new HandClock()
  const database = openDatabase({ path: ':memory:' })
  const store = createListingStore(database)
  const identity = await createIdentity()
  for (let n = 0; n < count; n++) {
    const record = listingRecord(identity.peerId, `agent ${n}`, clock.now(), {
      description,
      ...(n === 0 && { state: 'delisted' }),
    })
    const envelope = await signRecord(record, identity)
    const { search: _, ...row } = rowOf({ record, hash: '00'.repeat(32), bytes: 1 }, envelope, { seenAt: 0 })
    store.putLater(row)
  }
  await store.flush()
  const search = createListingSearch(database)
  const found = () => search.block({}, everything).length
  return { store, clock, found, database, deps: { store, clock, logger: silentLogger } }
}

test('an index that is missing is built from what is stored', async () => {
  const { store, found, deps } = await stored(230)
  expect(found()).toBe(0)
  await reindexListings(deps, never)
  expect(found()).toBe(229)
  expect(store.index.isWhole()).toBe(true)
})

test('T32 long listings are indexed a few at a time: each step holds the event loop', async () => {
  const { store, found, deps } = await stored(100, 'word '.repeat(400))
  const steps: number[] = []
  const reindex: typeof store.reindex = async (rows, read) => {
    const slowly: typeof read = (row) => {
      for (const until = performance.now() + 1; performance.now() < until; ) {}
      return read(row)
    }
    const count = await store.reindex(rows, slowly)
    steps.push(count)
    return count
  }
  await reindexListings({ ...deps, store: { ...store, reindex } }, never)
  expect(found()).toBe(99)
  expect(Math.max(...steps)).toBeLessThan(6)
})

test('T16 an index that was left half done is built anew at the next start', async () => {
  const { store, found, deps } = await stored(230)
  await reindexListings(deps, AbortSignal.abort())
  expect(store.index.isWhole()).toBe(false)
  await reindexListings(deps, never)
  expect(found()).toBe(229)
})

test('an index that is whole is left alone', async () => {
  const { found, database, deps } = await stored(3)
  await reindexListings(deps, never)
  database.prepare('UPDATE met_listings SET shown = 0').run()
  await reindexListings(deps, never)
  expect(found()).toBe(0)
})

test('a row that cannot be read is skipped', async () => {
  const { found, database, deps } = await stored(3)
  database.prepare("UPDATE listings SET envelope = x'00' WHERE id = (SELECT max(id) FROM listings)").run()
  await reindexListings(deps, never)
  expect(found()).toBeLessThanOrEqual(2)
  expect(deps.store.index.isWhole()).toBe(true)
})
