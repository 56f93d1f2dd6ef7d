/** T6 T13: work whose settlement the chain takes back is out on promises, as if it had never been settled first. */
import { expect, test } from 'vitest'
import { FakeSettlement, unclear } from '../../../test/support/fake-settlement.ts'
import { signed } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestSeller, type TestSellerOptions, told } from '../../../test/support/x402-seller.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import { openDatabase } from '../../store/database.ts'

const PRICE = 10_000n

async function start(options: TestSellerOptions): Promise<TestSeller> {
  return startSeller({ settleFirst: true, ...options })
}

async function setup(options: TestSellerOptions = {}) {
  const settlement = new FakeSettlement()
  const database = openDatabase({ path: ':memory:' })
  const seller = await start({ settlement, database, ...options })
  const { envelope, paymentId: id } = signed(seller.clock.now())
  const peer = await seller.connect()
  const bought = () => peer.request({ payment: envelope, body: base64('task') }).then(told)
  const reorganize = async () => {
    takeBack(settlement, envelope)
    await until(async () => (await seller.payments.nextLookAt()) !== undefined)
    seller.clock.set((await seller.payments.nextLookAt())!)
    await until(async () => (await seller.payments.get(id))?.state === 'owed')
  }
  const endMs = Number(envelope.payload!.authorization.validBefore) * 1000
  const expire = async (at = seller) => {
    at.clock.set(endMs + 120_000)
    await until(async () => (await at.payments.get(id))?.state === 'unsettled' || at.clock.advance(10_000))
  }
  return { seller, settlement, database, id, bought, reorganize, expire }
}

/** The transfer is gone, and no facilitator brings it back. */
function takeBack(settlement: FakeSettlement, { payload }: PaymentEnvelope): void {
  const { from, nonce } = payload!.authorization
  settlement.usual = unclear
  settlement.setUse(from, nonce, { state: 'unused' })
}

test('T6 T13 work that was settled first and is taken back counts as owed, as lost at the end, and can be tried again', async () => {
  const { seller, settlement, database, id, bought, reorganize, expire } = await setup()
  expect(await bought()).toBe('re: task')
  expect(seller.exposure.total).toBe(0n)
  await reorganize()
  expect(seller.exposure.total).toBe(PRICE)
  await seller.stop()
  const again = await start({ settlement, database, clock: seller.clock, exposure: { totalMax: 2n * PRICE } })
  expect(again.exposure.total).toBe(PRICE)

  await expire(again)
  expect(again.exposure.total).toBe(0n)
  expect([PRICE, PRICE + 1n].map((amount) => again.exposure.settlesFirst('stranger', amount))).toEqual([false, true])
  const { slots } = await again.payments.lost(0, { slotMs: 1_000, payersMax: 10 })
  expect(slots.map(({ amount }) => amount)).toEqual([PRICE])
  const { payments } = again.deps
  expect(await payments.reopen({ id, state: 'owed', attempts: 1 }, again.clock.now())).toBe(true)
  expect(again.exposure.total).toBe(PRICE)
})

test('T6 T13 work whose settlement is taken back while it runs counts from its end on', async () => {
  const { seller, bought, reorganize } = await setup()
  const { promise: work, resolve: finish } = Promise.withResolvers<string>()
  seller.work = () => work
  const answer = bought()
  await until(() => seller.runs.length === 1)
  await reorganize()
  expect(seller.exposure.total).toBe(0n)
  finish('done')
  expect(await answer).toBe('done')
  expect(seller.exposure.total).toBe(PRICE)
})

test('T6 T13 work that ends after its payment was given up is a loss', async () => {
  const { seller, bought, reorganize, expire } = await setup({ exposure: { totalMax: 2n * PRICE } })
  const { promise: work, resolve: finish } = Promise.withResolvers<string>()
  seller.work = () => work
  const answer = bought()
  await until(() => seller.runs.length === 1)
  await reorganize()
  await expire()
  const isOverBound = () => seller.exposure.settlesFirst('stranger', PRICE + 1n)
  expect(isOverBound()).toBe(false)
  finish('done')
  expect(await answer).toBe('done')
  expect(isOverBound()).toBe(true)
})

test('D39 T13 work that was done is settled again although its agent was removed meanwhile', async () => {
  const { seller, settlement, id, bought, reorganize } = await setup()
  expect(await bought()).toBe('re: task')
  seller.agents.clear()
  await reorganize()
  settlement.usual = { moves: true, answer: 'the transaction' }
  await until(async () => (await seller.payments.get(id))?.state === 'settled' || seller.clock.advance(1_000))
})
