import { expect, test, vi } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { claim, exchangeOf, randomHex } from '../../test/support/payments.ts'
import { silentLogger } from '../lib/logger.ts'
import { openDatabase } from '../store/database.ts'
import { createPayments, type PaymentState } from '../store/payments.ts'
import { retrySettlement } from './outbox-entry.ts'
import { Settler } from './settler.ts'

async function setup(state: PaymentState) {
  const clock = new HandClock()
  const payments = createPayments(openDatabase({ path: ':memory:' }))
  const payment = claim(clock.now())
  await payments.claim(payment, clock.now())
  const progress = { id: payment.id, state, attempts: 5, nextAttemptAt: clock.now() + 300_000, error: 'refused' }
  if (state !== 'authorized') await payments.deliver(progress, exchangeOf(payment, clock.now()), clock.now())
  const wake = vi.fn()
  const retry = (hasChain = false) => retrySettlement(payment.id, { payments, clock, wake, hasChain })
  return { clock, payments, id: payment.id, wake, retry }
}

test('an owed payment is due at once, its attempts as they were', async () => {
  const { payments, clock, id, wake, retry } = await setup('owed')
  await retry()
  expect(await payments.due(clock.now(), 10)).toMatchObject([{ id, attempts: 5 }])
  expect(wake).toHaveBeenCalledOnce()
})

test('D31: one that was given up has one attempt more, and settles', async () => {
  const { payments, clock, id, retry } = await setup('unsettled')
  const txHash = randomHex()
  const settle = vi.fn(async () => ({ kind: 'settled', txHash }) as const)
  await retry()
  expect(await payments.get(id)).toMatchObject({ state: 'owed', attempts: 4, unclear: true })
  const settler = new Settler(
    {},
    { clock, logger: silentLogger, payments, facilitator: { settle, close: async () => {} } as never, chance: () => 0 },
  )
  await settler.start()
  await vi.waitFor(
    async () => expect(await payments.get(id)).toMatchObject({ state: 'settled', txHash, attempts: 5 }),
    30_000,
  )
  await settler.stop()
  expect(settle).toHaveBeenCalledOnce()
})

test('D28: one whose authorization has expired is not tried again', async () => {
  const { payments, clock, id, wake, retry } = await setup('unsettled')
  clock.set(Number((await payments.get(id))!.signed.authorization.validBefore) * 1000)
  await expect(retry()).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
  expect([(await payments.get(id))?.state, wake.mock.calls.length]).toEqual(['unsettled', 0])
})

test('D41: one whose authorization has expired is looked for on the chain, which may show it after all', async () => {
  const { payments, clock, id, retry } = await setup('unsettled')
  const settlement = new FakeSettlement()
  const { authorization } = (await payments.get(id))!.signed
  const txHash = settlement.pay(authorization)
  clock.set(Number(authorization.validBefore) * 1000 + 600_000)
  await retry(true)
  const { facilitator, chain } = settlement
  const settler = new Settler({}, { clock, logger: silentLogger, payments, facilitator, chain, chance: () => 0 })
  await settler.start()
  await vi.waitFor(async () => expect(await payments.get(id)).toMatchObject({ state: 'settled', txHash }), 30_000)
  await settler.stop()
  expect(settlement.attempts).toEqual([])
})

test.each(['authorized', 'settled', 'voided'] as const)('one that is %s has nothing to retry', async (state) => {
  const { payments, id, retry } = await setup(state)
  await expect(retry()).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
  expect((await payments.get(id))?.state).toBe(state)
})
