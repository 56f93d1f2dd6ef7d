/** A ledger of several processes that is copied into another database: their work goes along, they do not. */
import { expect, onTestFinished, test } from 'vitest'
import { copyLedger } from '../../src/store/copy/copy-ledger.ts'
import { openSource } from '../../src/store/copy/places.ts'
import { takeRole } from '../../src/store/ownership.ts'
import { createPayments } from '../../src/store/payments.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { all } from '../../src/store/query.ts'
import { claim, exchangeOf } from '../support/payments.ts'
import { createTestDatabase } from '../support/test-postgres.ts'

const now = Date.UTC(2026, 0, 1)
const OF_PROCESSES = `
  SELECT id AS found FROM processes UNION ALL SELECT name FROM roles UNION ALL SELECT record FROM changes`

async function databaseAddress(): Promise<string> {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  return database.address()
}

test('their notes, roles and leases stay behind, and what they were doing is left to whoever opens the copy', async () => {
  const [from, to] = [await databaseAddress(), await databaseAddress()]
  const old = await openPostgres({ address: from })
  const payment = claim(now)
  const payments = createPayments(old)
  await payments.claimExposed(payment, now)
  const owed = { id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now } as const
  await payments.deliver(owed, exchangeOf(payment, now), now)
  expect(await takeRole(old, 'housekeeping')).toBe(true)
  expect(await old.query(all<{ found: string }>(OF_PROCESSES))).toEqual(
    expect.arrayContaining([{ found: 'housekeeping' }, { found: 'payment' }]),
  )
  await old.close()

  const source = await openSource({ kind: 'server', url: from })
  const target = await openPostgres({ address: to, isAlone: true })
  await copyLedger(source.database, target)
  await source.close()
  expect(await target.query(all(OF_PROCESSES))).toEqual([{ found: target.process }])
  const here = createPayments(target)
  expect(await here.due(now, 10)).toEqual([])
  await here.takeOver('the node stopped', now)
  expect(await here.due(now, 10)).toMatchObject([{ id: payment.id, state: 'owed' }])
  expect((await here.exposed(payment.signed.authorization.from)).total).toBe(payment.requirements.amount)
  await target.close()
})

test('a ledger that a process still shares is not copied', async () => {
  const address = await databaseAddress()
  const running = await openPostgres({ address })
  await expect(openSource({ kind: 'server', url: address })).rejects.toMatchObject({ code: 'STORE_IN_USE' })
  await running.close()
  await (await openSource({ kind: 'server', url: address })).close()
})
