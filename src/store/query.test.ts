import { expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { all, nothing, one, type Query, run, steps, together } from './query.ts'

const numbers = (...wanted: number[]) =>
  all<{ n: number }>(`SELECT value AS n FROM json_each(?)`, JSON.stringify(wanted)).map((rows) =>
    rows.map(({ n }) => n),
  )
const number = (n: number) => one<{ n: number }>('SELECT ? AS n', n).map((row) => row!.n)

/** The steps of a query, answered by SQLite as an engine does that sends one step after the other. */
async function inSteps<T>(query: Query<T>): Promise<{ value: T; statements: number[] }> {
  const database = openDatabase({ path: ':memory:' })
  const statements: number[] = []
  const asking = query[Symbol.iterator]()
  let step = asking.next()
  while (step.done !== true) {
    if ('lock' in step.value) throw new Error('no lock was expected')
    statements.push(step.value.statements.length)
    const answers = step.value.statements.map(({ sql, values }) => ({
      rows: database.all(sql, ...(values as number[])),
      changes: 0,
    }))
    step = asking.next(answers)
  }
  await database.close()
  return { value: step.value, statements }
}

async function onSqlite<T>(query: Query<T>): Promise<T> {
  const database = openDatabase({ path: ':memory:' })
  const value = await database.query(query)
  await database.close()
  return value
}

const queries: Record<string, { query: Query<unknown>; value: unknown; statements: number[]; isPlain: boolean }> = {
  'one statement': { query: number(1), value: 1, statements: [1], isPlain: true },
  'no statement': { query: nothing(1), value: 1, statements: [], isPlain: true },
  'a converted value, twice': {
    query: number(1)
      .map((n) => n + 1)
      .map((n) => `${n}`),
    value: '2',
    statements: [1],
    isPlain: true,
  },
  'statements side by side, also none and nested': {
    query: together(number(1), nothing('none'), together(numbers(2, 3), number(4)), together(), number(5)),
    value: [1, 'none', [[2, 3], 4], [], 5],
    statements: [4],
    isPlain: true,
  },
  'steps side by side with a plain query': {
    query: together(
      number(1),
      steps(function* () {
        const first = yield* number(2)
        return first + (yield* number(3))
      }),
    ).map(([plain, stepped]) => plain + stepped),
    value: 6,
    statements: [2, 1],
    isPlain: false,
  },
}

test.each(Object.entries(queries))('%s: the same value in steps and at once', async (_name, expected) => {
  const { query, value, statements, isPlain } = expected
  expect(query.plain !== undefined).toBe(isPlain)
  expect(await inSteps(query)).toEqual({ value, statements })
  expect(await onSqlite(query)).toEqual(value)
})

test('a change that is converted is plain: it travels with its commit', () => {
  expect(run('DELETE FROM kv').map((changes) => changes > 0).plain).toHaveLength(1)
})
