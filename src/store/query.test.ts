import { expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { all, lock, nothing, one, run, steps, together } from './query.ts'

const open = async () => {
  const database = openDatabase({ path: ':memory:' })
  await database.commit(run('CREATE TABLE numbers (n INTEGER PRIMARY KEY, word TEXT)'))
  return database
}
const put = (n: number, word: string) => run('INSERT INTO numbers (n, word) VALUES (?, ?)', n, word)
const words = all<{ word: string }>('SELECT word FROM numbers ORDER BY n')

test('a change reads what it wrote before, and gives its value after the commit', async () => {
  await using database = closing(await open())
  const change = steps(function* () {
    yield* lock('numbers')
    yield* put(1, 'one')
    const row = yield* one<{ n: number }>('SELECT max(n) AS n FROM numbers')
    const changes = yield* put(row!.n + 1, 'two')
    return { last: row!.n + 1, changes }
  })
  expect(await database.commit(change)).toEqual({ last: 2, changes: 1 })
  expect(await database.query(words)).toEqual([{ word: 'one' }, { word: 'two' }])
})

test('a change that fails leaves nothing, and those of its group are kept', async () => {
  await using database = closing(await open())
  const bad = steps(function* () {
    yield* put(5, 'five')
    throw new Error('no')
  })
  const outcomes = await Promise.allSettled([
    database.commit(put(1, 'one')),
    database.commit(bad),
    database.commitLater(put(2, 'two')),
  ])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(await database.query(words)).toEqual([{ word: 'one' }, { word: 'two' }])
})

test('queries together run side by side, and each gets its own answers', async () => {
  await using database = closing(await open())
  const double = (n: number) =>
    steps(function* () {
      yield* put(n, `${n}`)
      const row = yield* one<{ n: number }>('SELECT n FROM numbers WHERE n = ?', n)
      return (row?.n ?? 0) * 2
    })
  const mixed = together(double(1), put(7, 'seven'), nothing('x'), double(2))
  expect(mixed.plain).toBeUndefined()
  expect(await database.commit(mixed)).toEqual([2, 1, 'x', 4])
  const plain = together(put(8, 'eight'), words)
  expect(plain.plain).toHaveLength(2)
  const [changes, rows] = await database.commit(plain)
  expect(changes).toBe(1)
  expect(rows.map(({ word }) => word)).toEqual(['1', '2', 'seven', 'eight'])
})

test('a lock inside of together is refused', async () => {
  await using database = closing(await open())
  await expect(database.commit(together(lock('a'), words))).rejects.toThrow(/lock "a"/)
})

test('a query can be run again', async () => {
  await using database = closing(await open())
  await database.commit(put(1, 'one'))
  expect(await database.query(words)).toEqual(await database.query(words))
})

function closing<T extends { close(): Promise<void> }>(database: T): T & AsyncDisposable {
  return Object.assign(database, { [Symbol.asyncDispose]: () => database.close() })
}
