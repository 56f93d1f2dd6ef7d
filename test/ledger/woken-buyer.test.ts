/** D20 D33: a process stands still, or is cut off, with a signed payment in its hands. Others take over its order. */
import { expect, onTestFinished, test } from 'vitest'
import { nextMove } from '../../src/buying/workflow/progress.ts'
import type { Database } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { run } from '../../src/store/query.ts'
import { openShared } from '../support/ledgers.ts'
import { startPostgresProxy } from '../support/postgres-proxy.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'
import { TestSeller } from '../support/x402-seller.ts'

const LEASE_MS = 4_000
const END_AS_LOST = 'UPDATE processes SET ended_at = 1, lease_until = 0 WHERE id = ?'
const END_AS_LEFT = 'UPDATE processes SET ended_at = 1, lease_until = 2 WHERE id = ?'
const report = (home: string, { process }: LedgerDatabase) =>
  run('UPDATE processes SET report = ? WHERE id = ?', JSON.stringify({ home }), process)

async function startSeller() {
  const seller = await new TestSeller().start()
  onTestFinished(() => seller.stop())
  return seller
}

/** A buyer on this ledger. A test buyer needs SQLite only to list what it bought. */
function buyerOn(ledger: LedgerDatabase, seller: TestSeller): TestBuyer {
  const open = (_peer: unknown, protocol: string) => seller.open('buyer', protocol)
  const { clock, settlement } = seller
  return new TestBuyer({ clock, open, database: ledger as Database, chain: settlement.chain })
}

/** A buyer that stands still right after it has stored its signature. */
async function freeze(frozen: TestBuyer) {
  const woken = Promise.withResolvers<void>()
  const signed = Promise.withResolvers<string>()
  const { reserve } = frozen.purchases
  frozen.purchases.reserve = async (order, ...asked) => {
    const outcome = await reserve(order, ...asked)
    signed.resolve(order.id)
    await woken.promise
    return outcome
  }
  const bought = frozen.execute({ signal: AbortSignal.timeout(60_000) }).catch((error: unknown) => error)
  return { bought, id: await signed.promise, wake: woken.resolve }
}

async function setup(endedBy: string) {
  const seller = await startSeller()
  const ledgers = await openShared(3)
  const [frozen, heir] = ledgers.slice(0, 2).map((ledger) => buyerOn(ledger, seller)) as [TestBuyer, TestBuyer]
  onTestFinished(() => heir.recovery.stop())
  const { bought, id, wake } = await freeze(frozen)
  const takeOver = async () => {
    await ledgers[1]!.commit(run(endedBy, ledgers[0]!.process))
    await heir.purchases.takeOver(seller.clock.now())
    await heir.recovery.look(id)
  }
  const pass = async () => {
    const { validBeforeSeconds } = (await heir.purchases.reservationOf(id))!
    seller.clock.set(validBeforeSeconds * 1000 + 30_001)
    await heir.recovery.look(id)
  }
  const move = async () => {
    const { status, error } = (await heir.purchases.order(id))!
    const { state: signed, settlesFirst } = (await heir.purchases.reservationOf(id))!
    return nextMove({ status, error, signed, settlesFirst }, { tries: 1, retries: 0, fallbacksLeft: 1 })
  }
  return { ...{ seller, ledgers, heir, bought, id, wake, takeOver, pass, move } }
}

test('an order of a process that stood still does not fail while that process may yet send its payment', async () => {
  const { seller, heir, bought, id, wake, takeOver, pass, move } = await setup(END_AS_LOST)
  await takeOver()
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'executing' })
  expect([await move(), seller.runs.length]).toEqual([{ kind: 'wait' }, 0])

  wake()
  expect(await bought).toMatchObject({ output: 're: task' })
  await until(() => seller.settlement.attempts.length === 1)
  await pass()
  // What was charged has its result, at the process that took the order over.
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'completed', output: 're: task' })
  expect([await move(), seller.runs.length]).toEqual([{ kind: 'complete' }, 1])
})

test('it fails at the end of the payment window, when the payment buys nothing any more', async () => {
  const { seller, heir, id, takeOver, pass } = await setup(END_AS_LOST)
  await takeOver()
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'executing' })
  await pass()
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'failed' })
  expect(await heir.purchases.reservationOf(id)).toMatchObject({ state: 'released' })
  expect(seller.runs).toEqual([])
})

test('an order fails at once if the process that signed has stopped', async () => {
  const { heir, id, takeOver } = await setup(END_AS_LEFT)
  await takeOver()
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'failed', error: { code: 'PAYMENT_REQUIRED' } })
})

test('an order fails once another process has the data directory of the one that signed, which so was killed', async () => {
  const { ledgers, heir, id, takeOver } = await setup(END_AS_LOST)
  await ledgers[1]!.commit(report('a directory', ledgers[0]!))
  await ledgers[1]!.commit(report('another directory', ledgers[1]!))
  await takeOver()
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'executing' })
  // It is neither the one that signed nor the one that took over.
  await ledgers[2]!.commit(report('a directory', ledgers[2]!))
  await heir.recovery.look(id)
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'failed', error: { code: 'PAYMENT_REQUIRED' } })
})

test('a process that is cut off from the ledger sends no signed payment after most of its lease, and waits', async () => {
  const seller = await startSeller()
  const database = await createTestDatabase()
  const proxy = await startPostgresProxy(await testPostgres())
  const ledger = await openPostgres({ address: database.address(proxy.port), leaseMs: LEASE_MS })
  onTestFinished(async () => {
    await ledger.close()
    await proxy.close()
    await database.drop()
  })
  let looks = 0
  const isHeld = () => {
    looks += 1
    return ledger.isHeld!()
  }
  const { bought, wake } = await freeze(buyerOn({ ...ledger, isHeld }, seller))
  expect(isHeld()).toBe(true)
  proxy.onMessage(() => 'hold')
  await until(() => !isHeld())
  const before = looks
  wake()
  await until(() => looks > before + 2)
  expect(seller.runs).toEqual([])
  proxy.onMessage(() => 'pass')
  proxy.cut()
  // Nobody had taken over its work meanwhile.
  expect(await bought).toMatchObject({ output: 're: task' })
})
