/** D39: work that a process had settled, or was about to settle, when it died: another one runs it, and each tells its result. */
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../../src/store/query.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { FakeSettlement } from '../support/fake-settlement.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { claim, signed } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, TestSeller, told } from '../support/x402-seller.ts'

test.each(['settled', 'owed'])('settle-first work of a process that dies while it is %s', async (state) => {
  const isOwed = state === 'owed'
  const settlement = new FakeSettlement()
  const clock = new HandClock()
  const ledgers = await openShared(3)
  const shared = { settlement, clock, settleFirst: true, attemptTimeoutMs: 20_000 }
  const sellers = ledgers.map((ledger) => new TestSeller({ ...shared, ledger }))
  onTestFinished(async () => void (await Promise.all(sellers.map((seller) => seller.stop()))))
  const [dead, heir, other] = sellers as [TestSeller, TestSeller, TestSeller]
  await dead.start()
  await other.start()
  dead.work = () => Promise.withResolvers<string>().promise
  if (isOwed) settlement.plan.push({ moves: true, answer: 'hang' })
  const { envelope, paymentId } = signed(clock.now())
  void (await dead.connect('buyer')).request({ payment: envelope, body: base64('task') }).catch(() => {})
  await until(() => (isOwed ? settlement.attempts.length : dead.runs.length) === 1)
  await until(async () => (await other.payments.get(paymentId))?.state === state)

  await ledgers[2]!.commit(run('UPDATE processes SET ended_at = 1 WHERE id = ?', ledgers[0]!.process))
  // The start of a process takes over, as the end of another does.
  const held = Promise.withResolvers<string>()
  heir.work = () => held.promise
  await heir.start()
  await until(() => {
    clock.advance(2_000)
    return heir.runs.length === 1
  })
  // While it runs there, no other process begins.
  expect(await other.payments.isElsewhere(paymentId)).toBe(true)
  held.resolve('done')
  for (const seller of [other, heir])
    expect(told(await (await seller.connect('buyer')).askResult(envelope))).toBe('done')
  expect([heir.runs.length, other.runs.length, settlement.attempts.length]).toEqual([1, 0, 1])
})

test('work whose end could not be stored at once is free for other processes as soon as it can', async () => {
  const ledgers = await openShared(2)
  const shared = {
    settlement: new FakeSettlement(),
    clock: new HandClock(),
    settleFirst: true,
    attemptTimeoutMs: 20_000,
  }
  const [a, b] = ledgers.map((ledger) => new TestSeller({ ...shared, ledger })) as [TestSeller, TestSeller]
  onTestFinished(async () => void (await Promise.all([a.stop(), b.stop()])))
  await a.start()
  await b.start()
  const { endRun } = a.deps.payments
  let failures = 0
  a.deps.payments.endRun = async (id) => {
    if (++failures <= 3) throw new StoreError('STORE_AWAY', 'the database cannot be reached')
    return endRun(id)
  }
  a.work = () => Promise.reject(new Error('broken'))
  const { envelope, paymentId } = signed(a.clock.now())
  const peer = await a.connect('buyer')
  expect(told(await peer.request({ payment: envelope, body: base64('task') }))).toBe('EXECUTION_FAILED')
  await until(async () => !(await b.payments.isElsewhere(paymentId)))
  expect(told(await (await b.connect('buyer')).askResult(envelope))).toBe('re: task')
  expect([b.runs.length, a.deps.running.size]).toEqual([1, 0])
})

test('settled work of a dead process is free for all at once, not only for its heir', async () => {
  const [ended, first, second] = await openShared(3)
  const [dead, heir, other] = [ended!, first!, second!].map((ledger) => new TestSeller({ ledger }).payments)
  const now = new HandClock().now()
  const payment = claim(now, { task: 'task' })
  await dead!.claim(payment, now)
  await dead!.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
  await dead!.save({ id: payment.id, state: 'settled', lookAt: now + 1 }, now)
  expect(await other!.isElsewhere(payment.id)).toBe(true)
  await second!.commit(run('UPDATE processes SET ended_at = 1 WHERE id = ?', ended!.process))
  await heir!.takeOver('stopped', now)
  expect(await heir!.settledDue(now + 1, 9)).toMatchObject([{ id: payment.id }])
  expect(await other!.isElsewhere(payment.id)).toBe(false)
  expect(await other!.beginRun(payment)).toBe(true)
  expect(await heir!.beginRun(payment)).toBe(false)
})
