import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { claim, exchangeOf, randomHex } from '../../test/support/payments.ts'
import { openDatabase } from './database.ts'
import { createExchanges } from './exchanges.ts'
import { createPayments } from './payments.ts'
import type { Query, Statement, Step } from './query.ts'

const now = Date.UTC(2026, 0, 1)

test('T17: everything is there after the database was closed and opened again', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-payments-'))
  try {
    const path = join(dir, 'stoa.db')
    const first = openDatabase({ path })
    const payment = claim(now, { challengeNonce: randomHex() })
    await createPayments(first).claim(payment, now)
    const owed = { id: payment.id, state: 'owed' as const, attempts: 1, nextAttemptAt: now, unclear: true }
    await createPayments(first).deliver(owed, exchangeOf(payment, now), now)
    const before = await createPayments(first).get(payment.id)
    await first.close()
    const second = openDatabase({ path })
    expect(await createPayments(second).get(payment.id)).toEqual(before)
    expect(await createPayments(second).claim(payment, now)).toBe(false)
    expect(await createPayments(second).challengeConsumed(payment.challengeNonce!)).toBe(true)
    expect(await createExchanges(second).paidOutput(payment.id)).toBe('result')
    await second.close()
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})

test('what is under way is found by its index, however many payments there are', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const asked: string[] = []
  const noted = <T>(query: Query<T>) => {
    // What a query asks for first, if it is not known from the start. A lock needs no answer.
    const steps = query[Symbol.iterator]()
    let step = steps.next().value as Step
    if ('lock' in step) step = steps.next([]).value as Step
    const statements = query.plain ?? (step as { statements: readonly Statement[] }).statements
    asked.push(...statements.map(({ sql }) => sql))
    return query
  }
  const watched = createPayments({
    ...database,
    query: (query) => database.query(noted(query)),
    commit: (change) => database.commit(noted(change)),
  })
  await watched.due(now, 1)
  await watched.nextDueAt()
  await watched.oldestOwed()
  await watched.counts()
  await watched.hasten(now)
  await watched.takeOver('stopped', now)
  const plans = asked.flatMap((sql) => {
    const values = new Array(sql.split('?').length - 1).fill(0)
    return database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]
  })
  expect(plans.length).toBeGreaterThanOrEqual(7)
  for (const { detail } of plans)
    expect(detail).toMatch(
      /USING (COVERING )?INDEX|TEMP B-TREE|MULTI-INDEX OR|^INDEX [12]$|^((LIST|CORRELATED SCALAR) SUBQUERY \d|SCAN processes|SCAN t|CREATE BLOOM FILTER)$/,
    )
})
