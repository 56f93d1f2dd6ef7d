import { expect, test } from 'vitest'
import { signTogether } from '../../src/payments/merkle-receipt.ts'
import { receiptOf, receiptSigner } from '../../src/payments/receipt.ts'
import type { SignedReceipt } from '../../src/schema/receipt.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { createReceiptStore } from '../../src/store/receipts.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, claim, exchangeOf, requirements, sellerWallet, signed } from '../support/payments.ts'

const start = Date.UTC(2026, 0, 1)

function receiptFor(paymentId: `0x${string}`, payer: string, at: number) {
  const delivery = { network: 'eip155:84532', agentId, task: 'task', result: 'result', paymentId }
  return sellerWallet.signReceipt(receiptOf({ ...delivery, payer: payer as `0x${string}` }, at))
}

/** A receipt that shares its signature with two others. */
function sharedReceiptFor(paymentId: `0x${string}`, payer: string, at: number) {
  const { payload } = receiptFor(paymentId, payer, at)
  const others = ['1', '2'].map((digit) => ({ ...payload, paymentId: `0x${digit.repeat(64)}` }))
  return signTogether([payload, ...others], sellerWallet.signReceiptRoot)[0]!
}

async function sell(database: LedgerDatabase, at: number): Promise<void> {
  const payments = createPayments(database)
  const payment = claim(at)
  const receipt = receiptFor(payment.id, payment.signed.authorization.from, at)
  await payments.claim(payment, at)
  await payments.deliver({ id: payment.id, state: 'owed' }, { ...exchangeOf(payment, at), receipt }, at)
}

async function buy(
  database: LedgerDatabase,
  at: number,
  tokenId?: string,
  signedFor: (paymentId: `0x${string}`, payer: string) => SignedReceipt | undefined = () => undefined,
): Promise<SignedReceipt | undefined> {
  const purchases = createPurchases(database)
  const asked = requirements()
  const { paymentId, envelope } = signed(at, { requirements: asked })
  const shared = { agentId, sellerId: 'seller' }
  const order = {
    ...{ id: paymentId, ...shared, price: asked.amount, status: 'executing' as const, task: 'task', tokenId },
    ...{ output: undefined, error: undefined, correlationId: 'c', createdAt: at, updatedAt: at },
  }
  const validBeforeSeconds = Number(envelope.payload!.authorization.validBefore)
  const reservation = { paymentId, orderId: order.id, ...shared, requirements: asked, envelope, amount: asked.amount }
  await purchases.reserve(order, { ...reservation, validBeforeSeconds }, { day: '2026-01-01', limits: () => ({}) })
  const receipt = signedFor(paymentId, envelope.payer)
  const noted = receipt === undefined ? { receiptNote: '' } : { receipt }
  const paid = { paymentId, amount: asked.amount, txHash: undefined, ...noted }
  await purchases.finish({ ...order, status: 'completed', output: 'result', updatedAt: at + 1 }, paid)
  return receipt
}

onBothEngines((open) => {
  test('a receipt that shares its signature is kept whole by both sides, and shows its signer', async () => {
    const database = await open()
    const payments = createPayments(database)
    const payment = claim(start)
    await payments.claim(payment, start)
    const receipt = sharedReceiptFor(payment.id, payment.signed.authorization.from, start)
    await payments.deliver({ id: payment.id, state: 'owed' }, { ...exchangeOf(payment, start), receipt }, start)
    expect((await payments.get(payment.id))?.receipt).toEqual(receipt)
    const bought = await buy(database, start + 1, undefined, (id, payer) => sharedReceiptFor(id, payer, start))
    const store = createReceiptStore(database)
    const [out, sold] = (await store.list({ limit: 9 })).items
    expect([sold?.receipt, out?.receipt]).toEqual([receipt, bought])
    expect(out?.receipt && receiptSigner(out.receipt)).toBe(sellerWallet.address)
    expect((await store.get(payment.id))?.receipt).toEqual(receipt)
  })

  test('receipts of both directions are one list, newest first, and a token sees its own', async () => {
    const database = await open()
    await sell(database, start)
    await buy(database, start + 1, 'ann')
    await sell(database, start + 2)
    await buy(database, start + 3)
    const store = createReceiptStore(database)
    const all = await store.list({ limit: 9 })
    expect(all.items.map(({ direction, createdAt }) => [direction, createdAt - start])).toEqual([
      ['out', 3],
      ['in', 2],
      ['out', 1],
      ['in', 0],
    ])
    const first = await store.list({ limit: 3 })
    expect((await store.list({ limit: 3, cursor: first.next })).items).toEqual(all.items.slice(3))
    expect((await store.list({ limit: 9, ownerId: 'ann' })).items).toEqual([all.items[2]])
    expect((await store.list({ limit: 9, direction: 'in', agentId })).items).toHaveLength(2)
    expect((await store.list({ limit: 9, agentId: 'other' })).items).toEqual([])
    const [bought, sold] = all.items
    expect(await store.get(sold!.paymentId)).toMatchObject({ receipt: { payload: { paymentId: sold!.paymentId } } })
    expect([await store.get(sold!.paymentId, 'ann'), await store.get(bought!.paymentId, 'ann')]).toEqual([
      undefined,
      undefined,
    ])
    expect(await store.get(bought!.paymentId)).toMatchObject({ direction: 'out', note: '', receipt: undefined })
  })
})
