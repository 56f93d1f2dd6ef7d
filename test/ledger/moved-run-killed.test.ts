/** ADR-38: a process dies after it has left a payment, or while it runs one that another process has left. */
import { expect, onTestFinished, test } from 'vitest'
import { NoMachine } from '../../src/agents/runtime.ts'
import { run } from '../../src/store/query.ts'
import { FakeSettlement } from '../support/fake-settlement.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { until } from '../support/until.ts'
import { base64, TestSeller, told } from '../support/x402-seller.ts'
import { runsOf } from '../support/x402-sellers.ts'

const body = base64('task')

/** Three processes. The first has left a payment. */
async function left() {
  const shared = { settlement: new FakeSettlement(), clock: new HandClock() }
  const ledgers = await openShared(3)
  const sellers = ledgers.map((ledger) => new TestSeller({ ...shared, ledger }))
  onTestFinished(async () => void (await Promise.all(sellers.map((seller) => seller.stop()))))
  for (const seller of sellers) {
    seller.addAgent({ isSoldElsewhere: () => true })
    await seller.start()
  }
  const [first, second, third] = sellers as [TestSeller, TestSeller, TestSeller]
  first.work = () => Promise.reject(new NoMachine())
  const peer = await first.connect()
  const { payment, paymentId, correlation_id } = await peer.challenged({ body })
  expect(told(await peer.paidRequest(payment, { correlation_id, body, may_move: true }))).toBe('OVERLOADED')
  const preemptive = { ...payment, server_nonce: 'preemptive' }
  const again = async (seller: TestSeller) =>
    told(await (await seller.connect()).request({ payment: preemptive, body, may_move: true }))
  const result = async (seller: TestSeller) => told(await (await seller.connect()).askResult(payment))
  /** The third process finds that one has ended, and takes over. */
  const end = async (which: 0 | 1) => {
    await ledgers[2]!.commit(run('UPDATE processes SET ended_at = 1 WHERE id = ?', ledgers[which]!.process))
    await third.takeOver()
  }
  const state = async () => (await third.payments.get(paymentId))?.state
  return { sellers, second, third, again, result, end, state, settlement: shared.settlement }
}

test('what a process has left can be claimed once after its end', async () => {
  const { sellers, second, third, again, result, end } = await left()
  await end(0)
  expect(await result(third)).toBe('PAYMENT_REQUIRED')
  const answers = await Promise.all([again(second), again(third)])
  expect(answers.toSorted()).toEqual(['PAYMENT_NONCE_USED', 're: task'])
  expect(runsOf(sellers)).toBe(2)
})

test('T5 a process that was given up while it runs what was left can charge nothing, and nothing runs again', async () => {
  const { sellers, second, third, again, result, end, state, settlement } = await left()
  const work = Promise.withResolvers<string>()
  second.work = () => work.promise
  const sent = again(second)
  await until(() => second.runs.length === 1)
  await end(1)
  expect([await state(), await again(third), await result(third)]).toEqual([
    'voided',
    'PAYMENT_NONCE_USED',
    'EXECUTION_FAILED',
  ])
  // It only stood still, and goes on.
  work.resolve('too late')
  expect(await sent).toBe('SETTLEMENT_FAILED')
  expect([await state(), await again(third), await result(third)]).toEqual([
    'voided',
    'PAYMENT_NONCE_USED',
    'EXECUTION_FAILED',
  ])
  expect([runsOf(sellers), settlement.attempts]).toEqual([2, []])
})
