import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import { createListingStore, type ListingRow } from './listings.ts'

const row = (id: string, version: number): ListingRow => ({
  id,
  sellerId: 'seller',
  version,
  state: 'active',
  keptUntil: version + 1000,
  envelope: new Uint8Array([1, 2, version]),
})
const idsOf = (rows: ListingRow[]) => rows.map(({ id, version }) => `${id}@${version}`)

test('T17 own listings and the highest version signed survive a restart', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'stoa-listings-')), 'stoa.db')
  const first = openDatabase({ path })
  const store = createListingStore(first)
  expect(store.ownVersion()).toBe(0)
  await store.putOwn(row('b', 7))
  await store.putOwn(row('a', 5))
  await first.close()

  const second = openDatabase({ path })
  const reopened = createListingStore(second)
  expect(reopened.ownVersion()).toBe(7)
  expect(reopened.page('', 10)).toEqual([row('a', 5), row('b', 7)])
  await second.close()
})

test('rows are read page by page in the order of their ids', async () => {
  const store = createListingStore(openDatabase({ path: ':memory:' }))
  for (const id of ['c', 'a', 'b']) store.putLater(row(id, 1))
  await store.flush()
  expect(idsOf(store.page('', 2))).toEqual(['a@1', 'b@1'])
  expect(idsOf(store.page('b', 2))).toEqual(['c@1'])
  expect(store.page('c', 2)).toEqual([])
})

test('an older row never replaces a newer one, and a removal spares what is newer', async () => {
  const store = createListingStore(openDatabase({ path: ':memory:' }))
  await store.putOwn(row('a', 5))
  store.putLater(row('a', 4))
  await store.flush()
  expect(idsOf(store.page('', 9))).toEqual(['a@5'])
  store.removeLater('a', 4)
  await store.flush()
  expect(idsOf(store.page('', 9))).toEqual(['a@5'])
  store.removeLater('a', 5)
  await store.flush()
  expect(store.page('', 9)).toEqual([])
})

test('T16 what the disk refuses is written by the next flush', async () => {
  const database = openDatabase({ path: ':memory:' })
  let full = true
  const failing: Database = {
    ...database,
    write: (fn) => (full ? Promise.reject(new Error('disk full')) : database.write(fn)),
  }
  const store = createListingStore(failing)
  for (let n = 0; n < 1200; n++) store.putLater(row(`id${n}`, 1))
  await expect(store.flush()).rejects.toThrow('disk full')
  full = false
  await store.flush()
  expect(store.page('', 5000)).toHaveLength(1200)
})
