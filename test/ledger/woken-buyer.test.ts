/** D20 D33: a process stands still with a signed payment in its hands. Others call the order failed, and it sends the payment. */
import { expect, onTestFinished, test } from 'vitest'
import { nextMove } from '../../src/buying/workflow/progress.ts'
import type { Database } from '../../src/store/database.ts'
import { run } from '../../src/store/query.ts'
import { openShared } from '../support/ledgers.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { until } from '../support/until.ts'
import { TestSeller } from '../support/x402-seller.ts'

test('a step is not bought elsewhere while a process that stood still may yet send its payment', async () => {
  const seller = await new TestSeller().start()
  onTestFinished(() => seller.stop())
  const ledgers = await openShared(2)
  const open = (_peer: unknown, protocol: string) => seller.open('buyer', protocol)
  const { clock, settlement } = seller
  // A test buyer needs SQLite only to list what it bought.
  const [frozen, heir] = ledgers.map(
    (ledger) => new TestBuyer({ clock, open, database: ledger as Database, chain: settlement.chain }),
  ) as [TestBuyer, TestBuyer]
  onTestFinished(() => heir.recovery.stop())
  const woken = Promise.withResolvers<void>()
  const { reserve } = frozen.purchases
  let id = ''
  frozen.purchases.reserve = async (order, ...asked) => {
    const outcome = await reserve(order, ...asked)
    id = order.id
    await woken.promise
    return outcome
  }
  const bought = frozen.execute().catch((error: unknown) => error)
  await until(() => id !== '')

  await ledgers[1]!.commit(run('UPDATE processes SET ended_at = 1 WHERE id = ?', ledgers[0]!.process))
  await heir.recovery.start()
  await until(async () => (await heir.purchases.order(id))?.status === 'failed')
  const move = async () => {
    const { status, error } = (await heir.purchases.order(id))!
    const { state: signed, settlesFirst } = (await heir.purchases.reservationOf(id))!
    return nextMove({ status, error, signed, settlesFirst }, { tries: 1, retries: 0, fallbacksLeft: 1 })
  }
  expect([await move(), seller.runs.length]).toEqual([{ kind: 'wait' }, 0])

  woken.resolve()
  expect(await bought).toMatchObject({ output: 're: task' })
  await until(() => settlement.attempts.length === 1)
  const { validBeforeSeconds } = (await heir.purchases.reservationOf(id))!
  clock.set(validBeforeSeconds * 1000 + 30_001)
  await heir.recovery.look(id)
  // What was charged has its result, at the process that took the order over.
  expect(await heir.purchases.order(id)).toMatchObject({ status: 'completed', output: 're: task' })
  expect([await move(), seller.runs.length]).toEqual([{ kind: 'complete' }, 1])
})
