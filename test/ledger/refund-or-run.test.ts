/** D45: a refund and a run of the same payment exclude each other, at one process and at several. */
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { createRefunds } from '../../src/selling/refunds.ts'
import { run } from '../../src/store/query.ts'
import { FakeSettlement } from '../support/fake-settlement.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { claim, payTo, randomHex, signed, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, TestSeller, told } from '../support/x402-seller.ts'

/** Two processes of a seller, and a payment that is settled and whose run has failed. */
async function failed() {
  const ledgers = await openShared(2)
  const shared = {
    settlement: new FakeSettlement(),
    clock: new HandClock(),
    settleFirst: true,
    attemptTimeoutMs: 20_000,
  }
  const sellers = ledgers.map((ledger) => new TestSeller({ ...shared, ledger }))
  onTestFinished(async () => void (await Promise.all(sellers.map((seller) => seller.stop()))))
  for (const seller of sellers) await seller.start()
  const [a, b] = sellers as [TestSeller, TestSeller]
  a.work = () => Promise.reject(new Error('broken'))
  const { envelope, paymentId } = signed(a.clock.now())
  expect(told(await (await a.connect('buyer')).request({ payment: envelope, body: base64('task') }))).toBe(
    'EXECUTION_FAILED',
  )
  await until(async () => !(await b.payments.isElsewhere(paymentId)))
  const ask = async (seller: TestSeller) => told(await (await seller.connect('buyer')).askResult(envelope))
  return { a, b, paymentId, ask, ...refundsAt(a) }
}

/** The refunds of a process, over a chain that mines what `arrive` lets through. */
function refundsAt({ clock, deps, settlement }: TestSeller) {
  const sent: unknown[] = []
  const chain = { arrive: async () => {} }
  const refunds = createRefunds({
    ...{ clock, logger: silentLogger, payments: deps.payments, running: deps.running, unrun: deps.unrun },
    wallet: { address: payTo, asset: usdc },
    transactions: { ended: async () => [] },
    lane: async () => ({
      chain: { ...settlement.chain, request: async () => null, usdcBalance: async () => 10n ** 9n } as never,
      sender: {
        async send(make) {
          await (await make()).guard?.()
          await chain.arrive()
          sent.push(randomHex())
          return { hash: randomHex(), token: undefined }
        },
      },
    }),
    held: async () => 0n,
  })
  return {
    sent,
    chain,
    refund: (id: Parameters<typeof refunds.refund>[0]) => refunds.refund(id, AbortSignal.timeout(60_000)),
  }
}

/** Resolves when a refund has found the payment taken, at another process or here. */
function refused({ deps }: TestSeller) {
  const { beginRefund } = deps.payments
  let refusals = 0
  deps.payments.beginRefund = async (id) => {
    const isBegun = await beginRefund(id)
    if (!isBegun) refusals++
    return isBegun
  }
  return () => until(() => refusals > 0)
}

test.each(['another', 'the same'])(
  'a refund waits for a run at %s process, and is not sent if that delivers',
  async (which) => {
    const { a, b, paymentId, ask, sent, refund } = await failed()
    const runner = which === 'another' ? b : a
    const { promise: work, resolve: finish } = Promise.withResolvers<string>()
    const before = runner.runs.length
    runner.work = () => work
    const asked = ask(runner)
    await until(() => runner.runs.length === before + 1)
    const waits = refused(a)
    const refunded = expect(refund(paymentId)).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
    if (runner === b) await waits()
    expect(sent).toEqual([])
    finish('the goods')
    expect(await asked).toBe('the goods')
    await refunded
    expect([sent, (await a.payments.get(paymentId))?.refundTx]).toEqual([[], undefined])
    // Whoever asks again knows that it was delivered.
    await refund(paymentId)
    expect(sent).toHaveLength(1)
  },
)

test('a refund that waited for a run that failed is sent, and nothing runs after it', async () => {
  const { a, b, paymentId, ask, sent, refund } = await failed()
  const { promise: work, reject: fail } = Promise.withResolvers<string>()
  b.work = () => work
  const asked = ask(b)
  await until(() => b.runs.length === 1)
  const waits = refused(a)
  const refunded = refund(paymentId)
  await waits()
  fail(new Error('broken'))
  expect(await asked).toBe('EXECUTION_FAILED')
  await refunded
  b.work = undefined
  expect([sent.length, await ask(b), b.runs.length]).toEqual([1, 'EXECUTION_FAILED', 1])
})

test('nothing runs while another process pays the payment back, and runs if it does not', async () => {
  const { b, paymentId, ask, sent, refund, chain } = await failed()
  const { promise: arrives, reject: lose } = Promise.withResolvers<void>()
  let isSending = false
  chain.arrive = () => {
    isSending = true
    return arrives
  }
  const refunded = expect(refund(paymentId)).rejects.toThrow('no gas')
  await until(() => isSending)
  expect([await ask(b), b.runs.length]).toEqual(['SETTLEMENT_FAILED', 0])
  lose(new Error('no gas'))
  await refunded
  await until(async () => !(await b.payments.isBeingPaidBack(paymentId)))
  expect([await ask(b), sent]).toEqual(['re: task', []])
})

async function stores() {
  const ledgers = await openShared(2)
  const [a, b] = ledgers.map((ledger) => new TestSeller({ ledger }).payments)
  const now = new HandClock().now()
  const settled = async () => {
    const payment = claim(now, { task: 'task' })
    await a!.claim(payment, now)
    await a!.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
    await a!.save({ id: payment.id, state: 'settled' }, now)
    await a!.endRun(payment.id)
    return payment
  }
  return { ledgers, a: a!, b: b!, now, settled }
}

test('of a run and a refund that begin at the same time at two processes one does', async () => {
  const { a, b, settled } = await stores()
  for (let round = 0; round < 10; round++) {
    const payment = await settled()
    const begun = await Promise.all([a.beginRun(payment), b.beginRefund(payment.id)])
    expect(begun.toSorted()).toEqual([false, true])
  }
})

test('a refund is over with its process, unless it has signed a transaction', async () => {
  const { ledgers, a, b, settled } = await stores()
  const payment = await settled()
  expect([await a.beginRefund(payment.id), await a.beginRun(payment), await b.beginRun(payment)]).toEqual([
    true,
    false,
    false,
  ])
  expect(await b.isBeingPaidBack(payment.id)).toBe(true)
  await ledgers[1]!.commit(run('UPDATE processes SET ended_at = 1 WHERE id = ?', ledgers[0]!.process))
  expect(await b.isBeingPaidBack(payment.id)).toBe(false)
  const signed = `INSERT INTO chain_transactions
    (purpose, network, account, account_nonce, call_to, call_data, call_value, raw, hash, state, created_at, updated_at)
    VALUES (?, 'n', ?, 0, ?, ?, '0', ?, ?, 'sent', 1, 1)`
  const bytes = new Uint8Array([1])
  await ledgers[1]!.commit(run(signed, `refund ${payment.id}`, bytes, bytes, bytes, bytes, bytes))
  expect([await b.isBeingPaidBack(payment.id), await b.beginRun(payment)]).toEqual([true, false])
  await ledgers[1]!.commit(run("UPDATE chain_transactions SET state = 'lost'"))
  expect(await b.beginRun(payment)).toBe(true)
})
