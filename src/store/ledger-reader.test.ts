import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './database.ts'
import { createExchanges } from './exchanges.ts'
import { createLedgerReader } from './ledger-reader.ts'
import { runOnSqlite } from './sqlite-query.ts'

test('the newest executions of an agent are read as they lie, and not all of them to sort them', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const texts = { agentId: 'a', callerId: 'c', correlationId: 'x', input: 'task', output: 'result' }
  await createExchanges(database).record({ ...texts, createdAt: 0, durationMs: 1 })
  const asked: string[] = []
  const prepare = (sql: string) => {
    asked.push(sql)
    return database.prepare(sql)
  }
  const reader = createLedgerReader({ ...database, query: async (query) => runOnSqlite(prepare, query) })
  expect((await reader.executions({ agentId: 'a', limit: 9 })).items).toHaveLength(1)
  const plans = asked.flatMap((sql) => {
    const values = new Array(sql.split('?').length - 1).fill(0)
    return database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]
  })
  expect(plans.map(({ detail }) => detail).join('\n')).not.toContain('TEMP B-TREE')
  expect(asked).toHaveLength(2)
})
