import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Key } from 'interface-datastore/key'
import { afterEach, expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { type Database, openDatabase } from './database.ts'
import { PeerDatastore } from './peer-datastore.ts'

const a = new Key('/peers/a')
const b = new Key('/peers/b')
const dht = new Key('/dht/c')
const bytes = (...values: number[]) => Uint8Array.from(values)
const open: Database[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((database) => database.close()))
})

function database(path = ':memory:'): Database {
  const opened = openDatabase({ path })
  open.push(opened)
  return opened
}

function store(db = database(), options = {}, logger = silentLogger): PeerDatastore {
  return new PeerDatastore(options, { database: db, logger })
}

const rows = (db: Database) => db.prepare('SELECT key, value FROM peer_data ORDER BY key').all()

async function all<T>(items: Iterable<T> | AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = []
  for await (const item of items) collected.push(item)
  return collected
}

test('a value that was put is found, and a deleted value is not', () => {
  const peers = store()
  expect(peers.put(a, bytes(1, 2))).toBe(a)
  expect(peers.get(a)).toEqual(bytes(1, 2))
  expect(peers.has(a)).toBe(true)
  peers.put(a, bytes(3))
  expect(peers.get(a)).toEqual(bytes(3))
  peers.delete(a)
  expect(peers.has(a)).toBe(false)
  peers.delete(a)
})

test('a key that is not there is a NotFoundError, as libp2p expects', () => {
  expect(() => store().get(a)).toThrow(expect.objectContaining({ name: 'NotFoundError' }))
})

test('a value does not change with the buffer it was put from', () => {
  const peers = store()
  const buffer = bytes(1)
  peers.put(a, buffer)
  buffer[0] = 9
  expect(peers.get(a)).toEqual(bytes(1))
})

test('a query takes prefix, filters, orders, offset and limit', async () => {
  const peers = store()
  for (const [key, value] of [
    [a, 1],
    [b, 2],
    [dht, 3],
    [new Key('/peers/d'), 4],
  ] as const)
    peers.put(key, bytes(value))
  const values = async (query: Parameters<PeerDatastore['query']>[0]) =>
    (await all(peers.query(query))).map((pair) => pair.value[0])
  expect((await values({})).toSorted()).toEqual([1, 2, 3, 4])
  expect((await values({ prefix: '/peers/' })).toSorted()).toEqual([1, 2, 4])
  expect(await values({ filters: [({ value }) => value[0] === 2] })).toEqual([2])
  const descending = {
    orders: [(x: { value: Uint8Array }, y: { value: Uint8Array }) => (x.value[0]! < y.value[0]! ? 1 : -1) as 1 | -1],
  }
  expect(await values({ ...descending, offset: 1, limit: 2 })).toEqual([3, 2])
  const keys = await all(peers.queryKeys({ prefix: '/peers/' }))
  expect(keys.map(String).toSorted()).toEqual(['/peers/a', '/peers/b', '/peers/d'])
})

test('entries may be deleted while a query runs', async () => {
  const peers = store()
  for (const key of [a, b, dht]) peers.put(key, bytes(1))
  const seen: string[] = []
  for await (const { key } of peers.query({})) {
    seen.push(key.toString())
    peers.delete(a)
    peers.delete(b)
    peers.delete(dht)
  }
  expect(seen).toEqual(['/peers/a'])
})

test('a batch does nothing before it is committed, then all of it', async () => {
  const peers = store()
  peers.put(b, bytes(9))
  const batch = peers.batch()
  batch.put(a, bytes(1))
  batch.delete(b)
  expect([peers.has(a), peers.has(b)]).toEqual([false, true])
  await batch.commit()
  expect([peers.has(a), peers.has(b)]).toEqual([true, false])
})

test('putMany, getMany and deleteMany work on streams of entries', async () => {
  const peers = store()
  await all(
    peers.putMany([
      { key: a, value: bytes(1) },
      { key: b, value: bytes(2) },
    ]),
  )
  expect((await all(peers.getMany([b, a]))).map(({ value }) => value[0])).toEqual([2, 1])
  await all(peers.deleteMany([a]))
  expect(peers.has(a)).toBe(false)
})

test('T17: what was put and deleted is so after a stop and a new start', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'stoa-peers-')), 'stoa.db')
  const first = database(path)
  const before = store(first)
  before.put(a, bytes(1))
  before.put(b, bytes(2))
  await before.flush()
  before.delete(a)
  before.put(b, bytes(3))
  await before.stop()
  await first.close()
  open.length = 0
  const after = store(database(path))
  expect(after.has(a)).toBe(false)
  expect(after.get(b)).toEqual(bytes(3))
})

test('writes reach the disk by themselves, many in one go', async () => {
  const db = database()
  const peers = store(db, { flushAfterMs: 1 })
  for (let value = 0; value < 50; value++) peers.put(a, bytes(value))
  peers.put(b, bytes(1))
  expect(rows(db)).toEqual([])
  await until(() => rows(db).length === 2)
  expect(rows(db)[0]).toEqual({ key: '/peers/a', value: bytes(49) })
})

test('T19: a put of the stored value writes nothing', async () => {
  let writes = 0
  const db = database()
  const counting: Database = {
    ...db,
    write: (fn) => db.write(() => [writes++, fn()] as const).then(([, value]) => value),
  }
  const peers = store(counting)
  peers.put(a, bytes(1))
  await peers.flush()
  peers.put(a, bytes(1))
  await peers.flush()
  expect(writes).toBe(1)
})

test('T16: when the disk refuses, nothing is lost from memory, the operator is told, and the next write catches up', async () => {
  const db = database()
  let full = true
  const failing: Database = { ...db, write: (fn) => (full ? Promise.reject(new Error('disk full')) : db.write(fn)) }
  const warnings: string[] = []
  const logger: Logger = { ...silentLogger, warn: (_fields, message) => warnings.push(message) }
  const peers = store(failing, {}, logger)
  peers.put(a, bytes(1))
  await peers.flush()
  expect(warnings).toHaveLength(1)
  expect(peers.get(a)).toEqual(bytes(1))
  full = false
  peers.put(b, bytes(2))
  await peers.flush()
  expect(rows(db)).toHaveLength(2)
})

test('a part leaves keys of another kind out before the filters of a query see them', async () => {
  const part = store().part('trade')
  for (const key of [dht, a]) await part.put(key, bytes(1))
  const seen: string[] = []
  const note = (key: Key) => seen.push(key.toString()) > 0
  const found = await all(part.query({ prefix: '/peers/', filters: [({ key }) => note(key)] }))
  expect(found.map(({ key }) => key.toString())).toEqual(['/peers/a'])
  expect((await all(part.queryKeys({ prefix: '/peers/', filters: [note] }))).map(String)).toEqual(['/peers/a'])
  expect(seen).toEqual(['/peers/a', '/peers/a'])
})
