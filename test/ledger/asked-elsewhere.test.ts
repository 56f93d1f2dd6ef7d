/** D32 ADR-23: a buyer of the original node leaves a run at one process, and asks another one for the same task. */
import { expect, onTestFinished, test, vi } from 'vitest'
import { FakeSettlement } from '../support/fake-settlement.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { agentId } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, TestSeller, type TestSellerOptions, told } from '../support/x402-seller.ts'

const body = base64(JSON.stringify({ resource: agentId, input: 'slow' }))

/** Two processes of one seller. The first works on a task whose buyer waits, until `gate` opens. */
async function startRun(options: TestSellerOptions = {}) {
  const shared = { settlement: new FakeSettlement(), clock: new HandClock(), attemptTimeoutMs: 20_000, ...options }
  const sellers = (await openShared(2)).map((ledger) => new TestSeller({ ...shared, ledger }))
  onTestFinished(async () => void (await Promise.all(sellers.map((seller) => seller.stop()))))
  for (const seller of sellers) await seller.start()
  const [a, b] = sellers as [TestSeller, TestSeller]
  const gate = Promise.withResolvers<string>()
  a.work = () => gate.promise
  const peer = await a.connect()
  const { payment, paymentId, correlation_id } = await peer.challenged({ body })
  await peer.send('x402.paid_request', peer.message({ payment, correlation_id, body }))
  await until(() => a.runs.length === 1)
  return { ...{ a, b, gate, peer, paymentId, settlement: shared.settlement } }
}

/** The same task without a payment, asked once more. @returns when that process waits for the run of the other one */
async function askedAgain(seller: TestSeller) {
  const waits = vi.spyOn(seller.deps.payments, 'isElsewhere')
  const answer = (await seller.connect()).request({ body })
  await Promise.race([until(() => waits.mock.calls.length > 0), answer])
  return { answer }
}

const runsOf = (...sellers: TestSeller[]) => sellers.map(({ runs }) => runs.length)

for (const settleFirst of [false, true]) {
  test(`it waits there for the run, and pays once: settled first is ${settleFirst}`, async () => {
    const { a, b, gate, peer, paymentId, settlement } = await startRun({ settleFirst })
    await peer.stream.close()
    expect(told(await (await b.connect('stranger')).request({ body }))).toBe('x402.payment_required')
    const asked = await askedAgain(b)
    gate.resolve('at last')
    expect(told(await asked.answer)).toBe('{"output":"at last"}')
    expect([...runsOf(a, b), settlement.attempts.length]).toEqual([1, 0, 1])
    // Once for each payment, at all processes.
    await until(async () => (await b.payments.get(paymentId))?.awaited === undefined && !a.deps.running.has(paymentId))
    await until(() => a.deps.wrappedRuns.size === 0)
    for (const seller of [a, b]) {
      await until(async () => told(await (await seller.connect()).request({ body })) === 'x402.payment_required')
    }
  })
}

test('a buyer that waits at one process and asks another one too gets one result at both, and pays once', async () => {
  const { a, b, gate, peer, settlement } = await startRun()
  const asked = await askedAgain(b)
  // At the process where it waits, the same task is another purchase.
  expect(told(await (await a.connect()).request({ body }))).toBe('x402.payment_required')
  gate.resolve('at last')
  expect([told(await peer.next()), told(await asked.answer)]).toEqual(['{"output":"at last"}', '{"output":"at last"}'])
  expect([...runsOf(a, b), settlement.attempts.length]).toEqual([1, 0, 1])
})

test('a result that was heard is sold anew by all', async () => {
  const { a, b, gate, peer } = await startRun()
  gate.resolve('at last')
  expect(told(await peer.next())).toBe('{"output":"at last"}')
  for (const seller of [a, b]) {
    expect(told(await (await seller.connect()).request({ body }))).toBe('x402.payment_required')
  }
})

test('a run that failed left nothing to wait for: it is asked to pay again, because nobody was charged', async () => {
  const { a, b, gate, peer } = await startRun()
  await peer.stream.close()
  const asked = await askedAgain(b)
  gate.reject(new Error('broke'))
  expect(told(await asked.answer)).toBe('EXECUTION_FAILED')
  expect(told(await (await b.connect()).request({ body }))).toBe('x402.payment_required')
  expect(runsOf(a, b)).toEqual([1, 0])
})

test('a result that was stored by a process which died before it answered is given by the other one', async () => {
  const { a, b, gate, peer, paymentId, settlement } = await startRun({ attemptTimeoutMs: 60_000 })
  settlement.plan.push({ moves: true, answer: 'hang' })
  gate.resolve('at last')
  await until(async () => (await b.payments.get(paymentId))?.ran === true)
  expect(told(await (await b.connect()).request({ body }))).toBe('{"output":"at last"}')
  expect(runsOf(a, b)).toEqual([1, 0])
  peer.raw.abort(new Error('the buyer has gone'))
})
