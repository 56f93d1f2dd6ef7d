/** T5: what a process has taken over that joined while another one takes over stays with it. */
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { HandClock } from '../support/hand-clock.ts'
import { claim } from '../support/payments.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

const WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

test('work that a process runs which joined while a takeover waited for a row is not run by another one', async () => {
  const database = await createTestDatabase()
  const ledgers: LedgerDatabase[] = []
  const operator = new pg.Client({ connectionString: database.address() })
  await operator.connect()
  onTestFinished(async () => {
    await operator.end()
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.drop()
  })
  const open = async () => {
    const ledger = await openPostgres({ address: database.address() })
    ledgers.push(ledger)
    return { ledger, payments: createPayments(ledger) }
  }
  const now = new HandClock().now()
  const [dead, heir] = [await open(), await open()]
  const [first, second] = [claim(now, { task: 'first' }), claim(now, { task: 'second' })]
  for (const payment of [first, second]) {
    await dead.payments.claim(payment, now)
    await dead.payments.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
    await dead.payments.save({ id: payment.id, state: 'settled', lookAt: now + 1 }, now)
  }
  await operator.query('UPDATE payments SET deferred = 1, running = 0')
  await dead.ledger.close()

  const areWaiting = (count: number) => until(async () => (await operator.query(WAITING)).rowCount === count)
  await operator.query('BEGIN')
  await operator.query("SELECT 1 FROM payments WHERE task = 'first' FOR UPDATE")
  const takenOver = heir.payments.takeOver('stopped', now)
  await areWaiting(1)
  const begun = open().then(({ payments }) => payments.beginRun(second))
  await Promise.race([begun, areWaiting(2)])
  await operator.query('COMMIT')
  await takenOver
  expect(await begun).toBe(true)
  expect(await heir.payments.isElsewhere(second.id)).toBe(true)
  expect(await heir.payments.beginRun(second)).toBe(false)
})
