import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './database.ts'
import type { Query } from './query.ts'
import { createReceiptStore } from './receipts.ts'

test('receipts of one agent are found by an index in their order, however few of many they are', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const asked: string[] = []
  const noted = <T>(query: Query<T>) => {
    asked.push(...query.plain!.map(({ sql }) => sql))
    return database.query(query)
  }
  await createReceiptStore({ ...database, query: noted }).list({ agentId: 'rare', limit: 10 })
  const plans = asked.map((sql) => {
    const values = new Array(sql.split('?').length - 1).fill(0)
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]
    return plan.map(({ detail }) => detail)
  })
  // Of a receipt that is shown, its order and its channel are found by their keys.
  const byKey = expect.stringMatching(
    /^(CORRELATED SCALAR SUBQUERY \d|SEARCH [co] USING (INTEGER )?PRIMARY KEY \(.*\))$/,
  )
  const [first, second] = plans.map(([, ...subqueries]) => subqueries)
  expect(first).toEqual(first!.map(() => byKey))
  expect(second).toEqual(second!.map(() => byKey))
  expect(plans.map(([search]) => [search])).toEqual([
    [expect.stringMatching(/^SEARCH payments USING INDEX payments_receipts \(agent_id=\? AND rowid<\?\)$/)],
    [expect.stringMatching(/^SEARCH authorizations USING INDEX authorizations_receipts \(agent_id=\? AND rowid<\?\)$/)],
  ])
})
