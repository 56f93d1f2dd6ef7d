/** D45: a payment is paid back once, also after a crash, and a buyer believes the chain alone. */
import { expect, test } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { claim, exchangeOf, payTo, randomHex, usdc } from '../../test/support/payments.ts'
import { ScriptedSeller } from '../../test/support/scripted-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { notePaidBack } from '../buying/paid-back.ts'
import { silentLogger } from '../lib/logger.ts'
import { Unrun } from '../payments/unrun.ts'
import type { Hex } from '../schema/primitives.ts'
import { openDatabase } from '../store/database.ts'
import { createPayments } from '../store/payments.ts'
import type { Transactions } from '../store/transactions.ts'

type TransactionEnd = Awaited<ReturnType<Transactions['ended']>>[number]['state']

import { createRefunds } from './refunds.ts'

async function seller(ended: { hash: Hex; state: TransactionEnd }[] = [], options: { held?: bigint } = {}) {
  const clock = new HandClock()
  const payments = createPayments(openDatabase({ path: ':memory:' }))
  const payment = claim(clock.now())
  await payments.claim(payment, clock.now())
  const settlement = new FakeSettlement()
  const settle = async () => {
    settlement.pay(payment.signed.authorization)
    await payments.deliver({ id: payment.id, state: 'owed' }, exchangeOf(payment, clock.now()), clock.now())
    await payments.save({ id: payment.id, state: 'settled', txHash: randomHex() }, clock.now())
  }
  const sent: (string | undefined)[] = []
  const running = new Map<Hex, Promise<unknown>>()
  /** What the chain shows of transactions that were called lost. */
  const mined = new Set<Hex>()
  const request = async (_method: string, params: readonly unknown[]) =>
    mined.has(params[0] as Hex) ? { status: '0x1', transactionHash: params[0], logs: [] } : null
  const refunds = createRefunds({
    ...{ clock, logger: silentLogger, payments, running },
    unrun: new Unrun({ clock, logger: silentLogger, payments }),
    wallet: { address: payTo, asset: usdc },
    transactions: { ended: async () => ended },
    lane: async () => ({
      chain: { ...settlement.chain, request, usdcBalance: async () => 10_000n } as never,
      sender: {
        async send(make) {
          const call = await make()
          await call.guard?.()
          sent.push(call.key)
          return { hash: randomHex(), token: undefined }
        },
      },
    }),
    held: async () => options.held ?? 0n,
  })
  const refund = () => refunds.refund(payment.id, AbortSignal.timeout(5_000))
  return { refund, refunds, settle, settlement, payments, payment, sent, running, mined, ended }
}

test('D45 a payment is paid back once, however often that is asked for, also at once', async () => {
  const { refund, settle, payments, payment, sent } = await seller()
  await settle()
  await Promise.all([refund(), refund()])
  await refund()
  expect(sent).toEqual([`refund ${payment.id} 0`])
  expect((await payments.get(payment.id))?.refundTx).toMatch(/^0x/)
})

test('D45 a refund holds its payment before it reads it, and its failure is not that of whoever waits for it', async () => {
  const { refund, payment, running } = await seller()
  const refused = expect(refund()).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
  expect(running.has(payment.id)).toBe(true)
  await expect(running.get(payment.id)).resolves.toBeUndefined()
  await refused
  expect(running.has(payment.id)).toBe(false)
})

test.each<[TransactionEnd, boolean]>([
  ['mined', false],
  ['lost', true],
])('D45 T16 a refund that is %s, and was never recorded, is recorded and not sent again', async (state, isShown) => {
  const hash = randomHex()
  const { refund, settle, payments, payment, sent, mined } = await seller([{ hash, state }])
  if (isShown) mined.add(hash)
  await settle()
  await refund()
  expect([sent, (await payments.get(payment.id))?.refundTx]).toEqual([[], hash])
})

test('D45 a refund that was abandoned may be sent anew, under a key of its own', async () => {
  const { refund, settle, payment, sent } = await seller([{ hash: randomHex(), state: 'lost' }])
  await settle()
  await refund()
  expect(sent).toEqual([`refund ${payment.id} 1`])
})

test('D45 what is not settled, not known or signed for is not paid back', async () => {
  const open = await seller()
  await expect(open.refund()).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
  const unknown = open.refunds.refund(randomHex(), AbortSignal.timeout(5_000))
  await expect(unknown).rejects.toMatchObject({ code: 'UNKNOWN_PAYMENT' })
  const poor = await seller([], { held: 1n })
  await poor.settle()
  await expect(poor.refund()).rejects.toMatchObject({ code: 'INSUFFICIENT_FUNDS' })
  expect([open.sent, poor.sent, (await poor.payments.get(poor.payment.id))?.refundTx]).toEqual([[], [], undefined])
})

test('a call on a channel is not paid back: it has no payment of its own', async () => {
  const { refunds, payments, sent, settle, payment } = await seller()
  await settle()
  const { get } = payments
  payments.get = async (id) => ({ ...(await get(id))!, channel: { id: randomHex(), charge: undefined } })
  const refund = refunds.refund(payment.id, AbortSignal.timeout(5_000))
  await expect(refund).rejects.toMatchObject({ code: 'PAYMENT_FINAL', message: expect.stringContaining('channel') })
  expect(sent).toEqual([])
})

test('D45 T13 what the chain can still take back is not paid back before the depth at which it stays', async () => {
  const { refund, settle, settlement, payment, payments, sent } = await seller()
  await settle()
  const finalMs = Number(payment.signed.authorization.validBefore) * 1000 + 60_000
  for (const blockTimeMs of [0, finalMs - 1_000]) {
    settlement.blockTimeMs = blockTimeMs
    const message = expect.stringContaining(new Date(finalMs).toISOString())
    await expect(refund()).rejects.toMatchObject({ code: 'SETTLEMENT_NOT_FINAL', message })
  }
  expect([sent, (await payments.get(payment.id))?.refundTx]).toEqual([[], undefined])
  settlement.blockTimeMs = finalMs
  await refund()
  expect(sent).toHaveLength(1)
})

test('D45 D41 what the facilitator alone calls settled is not paid back', async () => {
  const { refund, settle, settlement, payment, sent } = await seller()
  await settle()
  const { from, nonce, to } = payment.signed.authorization
  settlement.chainIsDown = true
  await expect(refund()).rejects.toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  settlement.chainIsDown = false
  settlement.setUse(from, nonce, { state: 'unused' })
  await expect(refund()).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
  settlement.setUse(from, nonce, { state: 'used', txHash: randomHex(), transfer: { to, value: 1n } })
  await expect(refund()).rejects.toMatchObject({ code: 'PAYMENT_FINAL' })
  expect(sent).toEqual([])
})

test('D45 a buyer books as paid back what the chain shows, and one transaction for one purchase', async () => {
  const settlement = new FakeSettlement()
  const buyer = new TestBuyer({
    open: new ScriptedSeller(async (stream) => {
      for (let asked = await stream.next(); asked !== undefined; asked = await stream.next()) {
        await stream.challenge(asked, { challenge_nonce: randomHex() })
        await stream.respond(await stream.next())
      }
    }).open,
  })
  await buyer.execute()
  await buyer.execute()
  const [first, second] = (await buyer.ledger()).map(({ reservation }) => reservation!)
  const txHash = randomHex()
  const settled: Hex[] = []
  const note = (reservation = first!, moved = true) =>
    notePaidBack(reservation, txHash, {
      ...{ clock: buyer.clock, logger: silentLogger, purchases: buyer.purchases, changed: () => {} },
      chain: {
        ...settlement.chain,
        hasMoved: async (_hash, { to, value, after }) =>
          moved && to === first!.envelope.payer && value === 10_000n && settled.includes(after),
      },
    })
  // What was never charged cannot be paid back.
  expect(await note()).toBe(false)
  for (const { envelope } of [first!, second!]) settled.push(settlement.pay(envelope.payload!.authorization))
  expect([await note(first, false), await note(), await note(second)]).toEqual([false, true, false])
  expect((await buyer.ledger()).map(({ reservation }) => reservation?.refundTx)).toEqual([txHash, undefined])
})

test('D45 what was paid back is not owed again, whatever an RPC that lags says of its settlement', async () => {
  const { refund, settle, payments, payment } = await seller()
  await settle()
  await payments.lookAgain(payment.id, 1)
  await refund()
  expect(await payments.nextLookAt()).toBeUndefined()
  expect(await payments.takeBack({ id: payment.id }, 2)).toBe(false)
  expect(await payments.get(payment.id)).toMatchObject({ state: 'settled', refundTx: expect.any(String) })
})
