import { randomBytes } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { createExchanges, type Exchanges, type NewExchange } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { one } from '../../src/store/query.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { claim, exchangeOf, randomHex } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 1)
const DAY_MS = 24 * 60 * 60 * 1000
let database: LedgerDatabase
let exchanges: Exchanges

const exchange = (changes: Partial<NewExchange> = {}): NewExchange => ({
  agentId: 'agent',
  callerId: 'alice',
  correlationId: 'one',
  input: 'task',
  output: 'result',
  createdAt: now,
  durationMs: 1.5,
  ...changes,
})
/** The id of a payment that is stored. */
async function claimed() {
  const payment = claim(now)
  await createPayments(database).claim(payment, now)
  return payment.id
}
const count = async () => (await database.query(one<{ n: number }>('SELECT count(*) AS n FROM exchanges')))!.n

onBothEngines((open) => {
  beforeEach(async () => {
    database = await open()
    exchanges = createExchanges(database)
  })

  test('T9: history is one caller’s with one agent, answered ones only, the latest, oldest first', async () => {
    for (const input of ['a', 'b', 'c', 'd']) await exchanges.record(exchange({ input, output: `re: ${input}` }))
    await exchanges.record(exchange({ input: 'failed', output: undefined, error: 'no' }))
    await exchanges.record(exchange({ callerId: 'bob', input: 'secret' }))
    await exchanges.record(exchange({ agentId: 'other', input: 'elsewhere' }))
    expect(await exchanges.history('agent', 'alice', 3)).toEqual([
      { input: 'b', output: 're: b' },
      { input: 'c', output: 're: c' },
      { input: 'd', output: 're: d' },
    ])
    expect(await exchanges.history('agent', 'bob', 3)).toEqual([{ input: 'secret', output: 'result' }])
    expect(await exchanges.history('agent', 'carol', 3)).toEqual([])
  })

  test('D32: a payment has one result, the first that was stored', async () => {
    const paymentId = await claimed()
    await exchanges.record(exchange({ paymentId, output: 'first' }))
    await exchanges.record(exchange({ paymentId, output: 'second' }))
    expect(await exchanges.paidOutput(paymentId)).toBe('first')
    expect(await exchanges.paidOutput(randomHex())).toBeUndefined()
  })

  test('an empty result is a result', async () => {
    const paymentId = await claimed()
    await exchanges.record(exchange({ paymentId, output: '' }))
    expect(await exchanges.paidOutput(paymentId)).toBe('')
  })

  test('T19: executions older than a session remembers are dropped', async () => {
    await exchanges.record(exchange({ createdAt: now - 31 * DAY_MS }))
    await exchanges.record(exchange({ createdAt: now - 29 * DAY_MS }))
    await exchanges.purge(now)
    expect(await count()).toBe(1)
  })

  test('D32: a paid result is kept while it is owed for, and a day beyond its settlement', async () => {
    const payments = createPayments(database)
    const longAgo = now - 40 * DAY_MS
    const payment = claim(longAgo)
    await payments.claim(payment, longAgo)
    const owed = { id: payment.id, state: 'owed' as const, attempts: 1, nextAttemptAt: longAgo }
    await payments.deliver(owed, exchangeOf(payment, longAgo), longAgo)
    await exchanges.purge(now)
    expect(await exchanges.paidOutput(payment.id)).toBe('result')
    await payments.save({ id: payment.id, state: 'settled', txHash: randomHex() }, now)
    await exchanges.purge(now + DAY_MS)
    expect(await exchanges.paidOutput(payment.id)).toBe('result')
    await exchanges.purge(now + DAY_MS + 1)
    expect(await exchanges.paidOutput(payment.id)).toBeUndefined()
  })

  test('D32: a result that was purged is not mistaken for a later one under the same number', async () => {
    const longAgo = now - 40 * DAY_MS
    const payments = createPayments(database)
    const payment = claim(longAgo)
    await payments.claim(payment, longAgo)
    await payments.deliver({ id: payment.id, state: 'voided' }, exchangeOf(payment, longAgo), longAgo)
    await exchanges.purge(now)
    expect(await count()).toBe(0)
    await exchanges.record(exchange({ callerId: 'mallory', output: 'another’s secret' }))
    expect(await exchanges.paidOutput(payment.id)).toBeUndefined()
  })

  test('T7, T19: when tasks fill the disk, the oldest that nobody is owed are dropped until there is room', async () => {
    const bytesMax = 8 * 1024 * 1024
    const bounded = createExchanges(database, { bytesMax })
    const payments = createPayments(database)
    const paid = claim(now)
    await payments.claim(paid, now)
    await payments.deliver({ id: paid.id, state: 'owed', attempts: 1, nextAttemptAt: now }, exchangeOf(paid, now), now)
    // PostgreSQL would compress what repeats.
    const large = randomBytes(75_000).toString('base64')
    for (let i = 0; i < 200; i++) await bounded.record(exchange({ input: large, correlationId: `${i}` }))
    await bounded.trim(now)
    expect(await bounded.paidOutput(paid.id)).toBe('result')
    const rest = await count()
    expect(rest).toBeGreaterThan(20)
    expect(rest).toBeLessThan(90)
    const newest = await database.query(one('SELECT correlation_id FROM exchanges ORDER BY id DESC LIMIT 1'))
    expect(newest).toMatchObject({ correlation_id: '199' })
    await bounded.trim(now)
    expect(await count()).toBe(rest)
  })

  test('payments fill no room: a seller with many loses no session by them', async () => {
    const database = await open()
    const payments = createPayments(database)
    const bytesMax = await database.usedBytes()
    const exchanges = createExchanges(database, { bytesMax })
    await exchanges.record(exchange({}))
    await Promise.all(Array.from({ length: 600 }, () => payments.claim(claim(now), now)))
    expect(await database.usedBytes()).toBeGreaterThan(bytesMax)
    await exchanges.trim(now)
    expect(await database.query(one('SELECT count(*) AS n FROM exchanges'))).toEqual({ n: 1 })
  })
})
