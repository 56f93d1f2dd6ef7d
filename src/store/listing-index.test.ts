import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import { createListingSearch } from './listing-search.ts'
import { createListingStore, type ListingRow } from './listings.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const everything = { after: 0, limit: 1000, skeleton: '' }

function row(
  id: string,
  version: number,
  changes: { name?: string; price?: bigint; seenAt?: number } = {},
): ListingRow {
  const { name = `agent ${id}`, price = 7n, seenAt = version } = changes
  const facts = { name, description: 'does things', tags: ['tag'], protocols: ['/p/1'], price }
  const search = { facts, updatedAt: version, expiresAt: version + DAY_MS, seenAt }
  const keptUntil = version + DAY_MS + 120_000
  return { ...head(id, version), state: 'active', keptUntil, envelope: new Uint8Array([1]), search }
}
const head = (id: string, version: number) => ({
  ...{ id, sellerId: `seller-${id}`, version, updatedAt: version, expiresAt: version + DAY_MS, hash: '00'.repeat(32) },
})
const tombstone = (id: string, version: number): ListingRow => ({
  ...{ ...head(id, version), state: 'delisted', keptUntil: version + DAY_MS },
  envelope: new Uint8Array([2]),
})

function open(path = ':memory:') {
  const database = openDatabase({ path })
  const store = createListingStore(database)
  const search = createListingSearch(database)
  const all = () => search.block({}, everything).map(({ id }) => id)
  const named = (word: string) =>
    search
      .block({ words: { list: [{ tokens: [word], begins: false }], join: 'all', place: 'name' } }, everything)
      .map(({ id }) => id)
  return { database, store, search, all, named }
}
async function put({ store }: ReturnType<typeof open>, ...rows: ListingRow[]): Promise<void> {
  for (const one of rows) store.putLater(one)
  await store.flush()
}
const count = (database: Database, table: string) =>
  (database.prepare(`SELECT count(*) AS n FROM ${table}`).get() as { n: number }).n

test('a listing is found as soon as it is stored, and as it was stored last', async () => {
  const market = open()
  await market.store.putOwn(row('a', 1, { name: 'Alpha' }))
  await put(market, row('b', 1, { name: 'Beta' }))
  expect(market.all()).toEqual(['a', 'b'])
  expect(market.named('alpha')).toEqual(['a'])
  await put(market, row('a', 2, { name: 'Alpha', price: 9n }))
  expect(market.search.block({}, everything)[0]).toMatchObject({ id: 'a', price: 9, updatedAt: 2 })
  await put(market, row('a', 1, { name: 'Alpha', price: 1n }))
  expect(market.search.block({}, everything)[0]).toMatchObject({ id: 'a', price: 9 })
})

test('what is delisted, forgotten or replaced is found no more', async () => {
  const market = open()
  await put(market, row('a', 1, { name: 'Alpha' }), row('b', 1, { name: 'Beta' }), row('c', 1, { name: 'Gamma' }))
  await put(market, tombstone('a', 2))
  expect(market.all()).toEqual(['b', 'c'])
  expect(market.named('alpha')).toEqual([])
  market.store.removeLater('b', 0)
  await market.store.flush()
  expect(market.named('beta')).toEqual(['b'])
  market.store.removeLater('b', 1)
  await market.store.flush()
  expect(market.named('beta')).toEqual([])
  expect(market.all()).toEqual(['c'])
})

test('T3 first_seen is when this node met a listing, whatever the seller writes, and outlives a delisting', async () => {
  const market = open()
  await put(market, row('a', 5000, { seenAt: 10 }), row('b', 1, { seenAt: 20 }))
  await put(market, tombstone('a', 5001), row('b', 2, { seenAt: 30 }))
  await put(market, row('a', 5002, { seenAt: 40 }))
  const met = market.search.block({}, everything).map(({ id, firstSeen }) => [id, firstSeen])
  expect(met).toEqual([
    ['a', 10],
    ['b', 20],
  ])
})

test('the index and the rows are one transaction: where the disk refuses, neither is there', async () => {
  const database = openDatabase({ path: ':memory:' })
  const store = createListingStore(database)
  store.putLater(row('a', 1))
  database.prepare('DROP TABLE market_words').run()
  await expect(store.flush()).rejects.toThrow()
  expect(count(database, 'listings')).toBe(0)
  expect(count(database, 'met_listings')).toBe(0)
})

test('deleting text leaves the connection usable, however much was indexed before', async () => {
  const market = open()
  for (let n = 0; n < 2000; n++) market.store.putLater(row(`id${n}`, 1))
  await market.store.flush()
  for (let n = 0; n < 2000; n += 2) market.store.removeLater(`id${n}`, 1)
  await market.store.flush()
  const touched = await market.database.write(() =>
    market.database.prepare("UPDATE met_listings SET price = 1 WHERE id = 'id1'").run(),
  )
  expect(touched.changes).toBe(1)
  expect(market.all()).toHaveLength(1000)
  expect(market.named('id1')).toEqual(['id1'])
  expect(market.named('id0')).toEqual([])
})

test('T19 what left the market is forgotten after a week', async () => {
  const market = open()
  await put(market, row('a', 1), row('b', 1))
  await put(market, tombstone('a', 2))
  await market.store.index.forget(7 * DAY_MS)
  expect(market.search.met({ id: 'a' })).toBeDefined()
  await market.store.index.forget(9 * DAY_MS)
  expect(market.search.met({ id: 'a' })).toBeUndefined()
  expect(market.search.met({ id: 'b' })).toBeDefined()
  expect(market.all()).toEqual(['b'])
})

test('T19 refreshing ten thousand times grows nothing', async () => {
  const market = open()
  await put(market, row('a', 1, { name: 'Alpha' }))
  const sizes = () =>
    ['met_listings', 'market_words', 'name_keys', 'listing_text_data'].map((t) => count(market.database, t))
  const before = sizes()
  for (let version = 2; version < 10_000; version += 100) {
    for (let n = 0; n < 100; n++) market.store.putLater(row('a', version + n, { name: 'Alpha' }))
    await market.store.flush()
  }
  expect(sizes()).toEqual(before)
})

test('the index is not whole until it is said to be, and never after another version of the code', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'stoa-index-')), 'stoa.db')
  const first = open(path)
  expect(first.store.index.isWhole()).toBe(false)
  await first.store.index.setWhole()
  await first.database.close()
  const second = open(path)
  expect(second.store.index.isWhole()).toBe(true)
  second.database.prepare("UPDATE kv SET value = '0' WHERE key = 'listings.index'").run()
  expect(second.store.index.isWhole()).toBe(false)
  await second.database.close()
})

test('built anew, the index finds what is stored, and who was first is kept', async () => {
  const market = open()
  await put(market, row('b', 1, { seenAt: 1 }), row('a', 1, { seenAt: 2 }), row('gone', 1, { seenAt: 3 }))
  await put(market, tombstone('gone', 2))
  await market.store.index.reset()
  expect(market.all()).toEqual([])
  expect(market.named('agent')).toEqual([])
  let rows = [row('a', 1, { seenAt: 99 }), row('b', 1, { seenAt: 99 }), row('b', 0), row('gone', 1)]
  while (rows.length > 0) rows = rows.slice(await market.store.reindex(rows, (one) => one))
  expect(market.search.block({}, everything).map(({ id, firstSeen }) => [id, firstSeen])).toEqual([
    ['b', 1],
    ['a', 2],
  ])
  expect(market.named('agent')).toEqual(['b', 'a'])
})
