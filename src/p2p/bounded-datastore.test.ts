import { MemoryDatastore } from 'datastore-core/memory'
import { Key } from 'interface-datastore/key'
import { expect, test } from 'vitest'
import { BoundedDatastore } from './bounded-datastore.ts'

const bytes = Uint8Array.of(1)
const key = (name: string | number) => new Key(`/peers/${name}`)

async function names(store: BoundedDatastore): Promise<string[]> {
  const found: string[] = []
  for await (const { key } of store.query({ prefix: '/peers/' })) found.push(key.name())
  return found.toSorted()
}

test('T19: beyond its bound it forgets what was not used for longest', async () => {
  const store = new BoundedDatastore(new MemoryDatastore(), { entriesMax: 3, valueBytesMax: 10 })
  for (const name of ['a', 'b', 'c']) await store.put(key(name), bytes)
  await store.get(key('a'))
  await store.put(key('d'), bytes)
  expect(await names(store)).toEqual(['a', 'c', 'd'])
  await store.put(key('c'), bytes)
  await store.put(key('e'), bytes)
  expect(await names(store)).toEqual(['c', 'd', 'e'])
})

test('T7: a flood of entries does not drive out the node’s own', async () => {
  const store = new BoundedDatastore(new MemoryDatastore(), {
    entriesMax: 5,
    valueBytesMax: 10,
    pinned: ['/peers/own'],
  })
  await store.put(key('own'), bytes)
  await Promise.all(Array.from({ length: 100 }, (_, index) => store.put(key(index), bytes)))
  expect(await names(store)).toHaveLength(6)
  expect(await store.has(key('own'))).toBe(true)
})

test('T19: a value takes its own size, not that of the buffer it came in', async () => {
  const inner = new MemoryDatastore()
  const store = new BoundedDatastore(inner, { entriesMax: 3, valueBytesMax: 10 })
  await store.put(key('a'), new Uint8Array(64 * 1024).subarray(100, 101))
  expect(inner.get(key('a'))).toMatchObject({ byteLength: 1, buffer: { byteLength: 1 } })
})

test('entries of an earlier run count', async () => {
  const inner = new MemoryDatastore()
  for (let index = 0; index < 10; index++) await inner.put(key(index), bytes)
  const store = new BoundedDatastore(inner, { entriesMax: 4, valueBytesMax: 10 })
  await store.put(key('new'), bytes)
  expect(await names(store)).toHaveLength(4)
  expect(await store.has(key('new'))).toBe(true)
})

test('T7: a value that is too large is refused and what was there stays', async () => {
  const store = new BoundedDatastore(new MemoryDatastore(), { entriesMax: 5, valueBytesMax: 10 })
  await store.put(key('a'), bytes)
  await expect(store.put(key('a'), new Uint8Array(11))).rejects.toMatchObject({ code: 'VALUE_TOO_LARGE' })
  expect(await store.get(key('a'))).toEqual(bytes)
})

test('a deleted entry makes room', async () => {
  const store = new BoundedDatastore(new MemoryDatastore(), { entriesMax: 2, valueBytesMax: 10 })
  await store.put(key('a'), bytes)
  await store.put(key('b'), bytes)
  await store.delete(key('b'))
  await store.put(key('c'), bytes)
  expect(await names(store)).toEqual(['a', 'c'])
})
