import { expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { createDeferred } from './deferred.ts'
import type { Query } from './query.ts'

test('D39 settled payments without a run are found by an index, however many payments there are', async () => {
  const database = openDatabase({ path: ':memory:' })
  const asked: string[] = []
  const noted = <T>(query: Query<T>) => {
    asked.push(...query.plain!.map(({ sql }) => sql))
    return query
  }
  const deferred = createDeferred({
    ...database,
    query: (query) => database.query(noted(query)),
  })
  await deferred.unrun(1)
  for (const sql of asked) {
    const values = new Array(sql.split('?').length - 1).fill(0)
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]
    expect(plan.map(({ detail }) => detail).join()).toContain('payments USING INDEX payments_deferred_unrun')
  }
  expect(asked).toHaveLength(1)
  await database.close()
})
