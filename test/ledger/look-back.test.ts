import { expect, test } from 'vitest'
import type { Page } from '../../src/schema/page.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createLedgerReader, type ExecutionsQuery, type StoredExecution } from '../../src/store/ledger-reader.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { run } from '../../src/store/query.ts'
import { onBothEngines } from '../support/ledgers.ts'

const start = Date.UTC(2026, 0, 1)
const HOUR_MS = 3_600_000

/** What a reader finds who follows every page to the end, and how many pages that took. */
async function allFound(database: LedgerDatabase, query: Partial<ExecutionsQuery>) {
  const ledger = createLedgerReader(database)
  const inputs: string[] = []
  let [cursor, pages]: [string | undefined, number] = [undefined, 0]
  do {
    const page: Page<StoredExecution> = await ledger.executions({ limit: 50, cursor, ...query })
    inputs.push(...page.items.map(({ input }) => input))
    cursor = page.next
    pages += 1
  } while (cursor !== undefined)
  return { inputs, pages }
}

const RAN = `
  INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, output, error, created_at, duration_ms)
  VALUES (?, 'c', ?, ?, ?, ?, ?, 1)`

onBothEngines((open) => {
  test('executions are found by words of task, result or error, by failure and by time', async () => {
    const database = await open()
    const found = (query: Partial<ExecutionsQuery>) => allFound(database, query)
    const ran = (hour: number, input: string, { error, agentId = 'a' }: { agentId?: string; error?: string } = {}) => {
      const output = error === undefined ? `done: ${input}` : null
      return database.commit(run(RAN, agentId, `${hour}`, input, output, error ?? null, start + hour * HOUR_MS))
    }
    await ran(0, 'Summarize the 100% report')
    await ran(1, 'translate', { error: 'the model REPORTED a fault' })
    await ran(2, 'other', { agentId: 'b' })
    expect((await found({ text: 'report' })).inputs).toEqual(['translate', 'Summarize the 100% report'])
    expect((await found({ text: '100%' })).inputs).toEqual(['Summarize the 100% report'])
    expect((await found({ text: 'done: oth' })).inputs).toEqual(['other'])
    expect((await found({ text: '%' })).inputs).toHaveLength(1)
    expect((await found({ text: 'nobody calls it so', agentIds: ['b'] })).inputs).toEqual(['other'])
    expect((await found({ failed: true })).inputs).toEqual(['translate'])
    expect((await found({ failed: false, agentId: 'a' })).inputs).toEqual(['Summarize the 100% report'])
    expect((await found({ since: start + HOUR_MS, until: start + 2 * HOUR_MS })).inputs).toEqual(['translate'])
  })

  test('T19: one page of a search looks at so many rows, and the next one goes on where it stopped', async () => {
    const database = await open()
    const found = (query: Partial<ExecutionsQuery>) => allFound(database, query)
    const many = `
    INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, output, created_at, duration_ms)
    SELECT 'a', 'c', 'c', CASE WHEN no IN (1, 6000) THEN 'needle ' || no ELSE 'hay' END, 'done', ? + no * 60000, 1
    FROM (WITH RECURSIVE counter (no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM counter WHERE no < 12000)
      SELECT no FROM counter) AS counted ORDER BY no`
    await database.commit(run(many, start))
    const first = await createLedgerReader(database).executions({ limit: 50, text: 'needle' })
    expect(first.items).toEqual([])
    expect(first.next).toBeDefined()
    expect(await found({ text: 'needle' })).toEqual({ inputs: ['needle 6000', 'needle 1'], pages: 3 })
    // As nothing is indexed by whom an agent worked for, so it is for a token that looks for its own.
    await database.commit(run("UPDATE exchanges SET caller_id = 'local:t' WHERE id = 6000"))
    expect(await found({ ownerId: 't' })).toEqual({ inputs: ['needle 6000'], pages: 3 })
    // Where all that is older began before the time in question, nobody looks further, whatever stands there.
    await database.commit(run('UPDATE exchanges SET created_at = ? WHERE id = 1', start + 11_500 * 60_000))
    expect(await found({ text: 'needle', since: start + 11_000 * 60_000 })).toEqual({ inputs: [], pages: 1 })
  })

  test('orders are found by the words of their task, their agent and their id, and by time', async () => {
    const database = await open()
    const orders = createOrderStore(database)
    const place = async (id: string, hour: number, task: string, agentName?: string) => {
      const at = start + hour * HOUR_MS
      const blank = { sellerId: undefined, output: undefined, error: undefined, correlationId: undefined }
      const shared = { agentId: 'a', price: 7n, status: 'pending' as const, ...blank, createdAt: at, updatedAt: at }
      await orders.place(
        { id, task, ...shared, ...(agentName !== undefined && { agentName }) },
        { all: 9, perToken: 9 },
      )
    }
    await place('order-one', 0, 'a poem', 'Poet')
    await place('order-two', 30, 'a summary')
    const ids = async (query: object) => (await orders.list({ limit: 9, ...query })).items.map(({ id }) => id)
    expect(await ids({ text: 'POEM' })).toEqual(['order-one'])
    expect(await ids({ text: 'poet' })).toEqual(['order-one'])
    expect(await ids({ text: 'order-two' })).toEqual(['order-two'])
    expect(await ids({ since: start + 24 * HOUR_MS })).toEqual(['order-two'])
    expect(await ids({ until: start + 24 * HOUR_MS, text: 'a ' })).toEqual(['order-one'])
  })
})
