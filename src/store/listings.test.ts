import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Pace } from '../lib/pace.ts'
import { type Database, openDatabase } from './database.ts'
import { createListingStore, type ListingRow } from './listings.ts'

const row = (id: string, version: number): ListingRow => ({
  id,
  sellerId: 'seller',
  version,
  state: 'active',
  updatedAt: version,
  expiresAt: version + 900,
  keptUntil: version + 1000,
  hash: version.toString(16).padStart(64, '0'),
  envelope: new Uint8Array([1, 2, version]),
})
const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)
const idsOf = (rows: Pick<ListingRow, 'id' | 'version'>[]) => rows.map(({ id, version }) => `${id}@${version}`)

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
  const [{ envelope, ...a }, { envelope: _, ...b }] = [row('a', 5), row('b', 7)]
  expect([...reopened.load()].toSorted(byId)).toEqual([a, b].map((head) => ({ ...head, bytes: 3 })))
  expect(reopened.envelope('a')).toEqual(envelope)
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

test('T16 a change that the disk refuses is written by the next flush', async () => {
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

test('a listing is found by its time and the beginning of its hash, and read before it is written', async () => {
  const store = createListingStore(openDatabase({ path: ':memory:' }))
  const hash = 'ab'.repeat(32)
  store.putLater({ ...row('a', 5), hash })
  store.putLater({ ...row('b', 5), hash: 'ac'.repeat(32) })
  expect(store.envelope('a')).toEqual(new Uint8Array([1, 2, 5]))
  const begins = Buffer.from(hash, 'hex').subarray(0, 16)
  expect(store.find(5, begins)).toBeUndefined()
  await store.flush()
  expect(store.find(5, begins)).toMatchObject({ id: 'a', version: 5 })
  expect(store.find(6, begins)).toBeUndefined()
  store.removeLater('a', 5)
  expect(store.envelope('a')).toBeUndefined()
})

test('a listing to index later waits until it is indexed, also over a restart', async () => {
  const database = openDatabase({ path: ':memory:' })
  const store = createListingStore(database)
  store.putLater({ ...row('a', 5), toIndex: 77 })
  await store.flush()
  expect(createListingStore(database).toIndex(9)).toMatchObject([{ id: 'a', version: 5, seenAt: 77 }])
  await store.reindex([{ id: 'a', version: 4 }], () => ({ sellerId: 'seller' }))
  expect(store.toIndex(9)).toHaveLength(1)
  await store.reindex([{ id: 'a', version: 5 }], () => ({ sellerId: 'seller' }))
  expect(store.toIndex(9)).toEqual([])
})

test('T32 rows that take long to index are written a few at a time, so that calls do not wait', async () => {
  const database = openDatabase({ path: ':memory:' })
  const groups: number[] = []
  let indexed = 0
  const watched: Database = {
    ...database,
    async write(fn) {
      const before = indexed
      const value = await database.write(fn)
      groups.push(indexed - before)
      return value
    },
  }
  const pace = new Pace()
  const store = createListingStore(watched, pace)
  const facts = {
    get description() {
      for (const until = performance.now() + 1; performance.now() < until; ) {}
      indexed++
      return 'text'
    },
    ...{ name: 'agent', tags: [], protocols: [], price: 0n },
  }
  const search = { facts, updatedAt: 1, expiresAt: 900, seenAt: 1 }
  for (let n = 0; n < 40; n++) store.putLater({ ...row(`id${n}`, 1), search })
  await store.flush()
  expect(store.page('', 100)).toHaveLength(40)
  expect(indexed).toBe(40)
  expect(Math.max(...groups)).toBeLessThan(6)

  groups.length = 0
  for (let n = 0; n < 10; n++) store.putLater({ ...row(`id${n}`, 2), search })
  pace.noteCall()
  await store.flush()
  expect(Math.max(...groups)).toBe(1)
})

test('T29 the queue of one party delays nobody else, and nobody waits for later changes', async () => {
  const store = createListingStore(openDatabase({ path: ':memory:' }))
  for (let n = 0; n < 2000; n++) store.putLater(row(`junk${n}`, 1), 'attacker')
  for (let n = 0; n < 10; n++) store.putLater(row(`honest${n}`, 1), 'honest')
  // More comes without end.
  let more = 0
  const attack = setInterval(() => {
    for (let n = 0; n < 100; n++) store.putLater(row(`more${more++}`, 1), 'attacker')
  }, 0)
  await store.flush('honest')
  expect(store.waiting('honest')).toBe(0)
  expect(store.waiting('attacker')).toBeGreaterThan(1000)
  expect([...store.load()].filter(({ id }) => id.startsWith('honest'))).toHaveLength(10)
  await store.flush()
  clearInterval(attack)
  expect([...store.load()].filter(({ id }) => id.startsWith('junk'))).toHaveLength(2000)
})

test('a later change of a listing that waits is written in its place', async () => {
  const store = createListingStore(openDatabase({ path: ':memory:' }))
  store.putLater(row('a', 1), 'first')
  store.putLater(row('a', 2), 'second')
  expect([store.waiting('first'), store.waiting('second')]).toEqual([1, 0])
  await store.flush('first')
  expect([...store.load()].map(({ version }) => version)).toEqual([2])
})
