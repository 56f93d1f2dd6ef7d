import { expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { createDeferred } from './deferred.ts'

test.each([
  [undefined, 'payments_deferred_unrun'],
  [0, 'payments_unrun'],
])(
  'D39 settled payments without a run are found by an index, however many payments there are (since: %s)',
  async (since, index) => {
    const database = openDatabase({ path: ':memory:' })
    const asked: string[] = []
    const deferred = createDeferred({
      ...database,
      query(query) {
        asked.push(...query.plain!.map(({ sql }) => sql))
        return database.query(query)
      },
    })
    expect(await deferred.unrun(1, since)).toEqual([])
    const values = since === undefined ? [1] : [since, 1]
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${asked[0]}`).all(...values) as { detail: string }[]
    expect(plan[0]!.detail).toContain(`payments USING INDEX ${index}`)
    await database.close()
  },
)
