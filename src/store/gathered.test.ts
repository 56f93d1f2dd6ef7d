import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './database.ts'
import { gathered } from './gathered.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, run, together } from './query.ts'
import { ConnectionBroken, StoreError } from './store-error.ts'

const broken = new ConnectionBroken('STORE_AWAY', 'the connection was lost')
const away = new StoreError('STORE_AWAY', 'the database does not answer')

/** Stores numbers in order. `fate` says why a change is refused. */
function numbers(fate: (items: readonly number[], how: 'many' | 'alone') => Error | undefined) {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  database.run('CREATE TABLE numbers (at INTEGER PRIMARY KEY, number INTEGER)')
  const tried: (readonly number[])[] = []
  const put = (items: readonly number[]) =>
    together(...items.map((item) => run('INSERT INTO numbers (number) VALUES (?)', item)))
  const make = (items: readonly number[], how: 'many' | 'alone') => {
    tried.push(items)
    const error = fate(items, how)
    if (error !== undefined) throw error
    return put(items)
  }
  const commit: LedgerDatabase['commit'] = (change) => database.commit(change)
  const store = gathered<number, number>(
    { commit },
    {
      change: (items) => make(items, 'many'),
      alone: async (item) => (await database.commit(make([item], 'alone')))[0]!,
      isOrdered: true,
      sizeOf: () => 1,
    },
  )
  const stored = async () =>
    (await database.query(all<{ number: number }>('SELECT number FROM numbers ORDER BY at'))).map((row) => row.number)
  return { store, tried, stored }
}

test('a change of many that breaks its connection is made in parts, in order', async () => {
  const { store, tried, stored } = numbers((items, how) => (how === 'many' && items.length > 1 ? broken : undefined))
  expect(await Promise.all([1, 2, 3].map(store))).toEqual([1, 1, 1])
  expect(tried).toEqual([[1, 2, 3], [1], [2], [3]])
  expect(await stored()).toEqual([1, 2, 3])
})

test('where the database goes away between the parts, the rest waits for it once, and comes before what is new', async () => {
  const { store, tried, stored } = numbers((items, how) => {
    if (how === 'alone') return items[0] === 2 ? away : undefined
    return items.length > 3 ? broken : undefined
  })
  const outcomes = await Promise.allSettled([1, 2, 3, 4].map(store))
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
  expect(tried).toEqual([[1, 2, 3, 4], [1], [2], [3, 4]])
  expect(await stored()).toEqual([1, 3, 4])
})

test('while the database is away, nothing is tried by itself: each would wait as long again', async () => {
  const { store, tried } = numbers(() => away)
  const outcomes = await Promise.allSettled([1, 2, 3].map(store))
  expect(outcomes).toEqual(Array.from({ length: 3 }, () => ({ status: 'rejected', reason: away })))
  expect(tried).toEqual([[1, 2, 3]])
})
