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
    commit: (change) => database.commit(noted(change)),
  })
  await deferred.unrun(1)
  await deferred.takeOver(0, 1)
  const indices = ['payments_deferred_unrun', 'payments_deferred', 'payments_unrun']
  for (const [place, sql] of asked.entries()) {
    const values = new Array(sql.split('?').length - 1).fill(0)
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]
    expect(plan.map(({ detail }) => detail).join()).toContain(`payments USING INDEX ${indices[place]}`)
  }
  expect(asked).toHaveLength(3)
  await database.close()
})
