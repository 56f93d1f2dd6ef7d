import { type EIP712SignedReceipt, verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import { expect, test } from 'vitest'
import { agentId, payTo, randomHex, sellerWallet, testWallet } from '../../test/support/payments.ts'
import { ScriptedSeller, type ScriptedStream } from '../../test/support/scripted-seller.ts'
import { startSeller } from '../../test/support/started-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { until } from '../../test/support/until.ts'
import { receiptOf } from '../payments/receipt.ts'
import { x402ReceiptOf } from '../payments/x402-receipt.ts'
import type { Hex } from '../schema/primitives.ts'
import { createReceiptStore } from '../store/receipts.ts'
import { askForX402Receipt } from './x402-receipt.ts'

const ask = async (buyer: TestBuyer, paymentId: string) => {
  const stored = (await createReceiptStore(buyer.database).get(paymentId))!
  const { streams, deps } = buyer
  const catalog = { ...deps.catalog, resourceOf: (id: string) => id }
  return askForX402Receipt(stored, { streams, callerDid: deps.callerDid, catalog }, AbortSignal.timeout(5_000))
}

test('the seller of a purchase gives a receipt that the package of x402 verifies', async () => {
  const seller = await startSeller()
  const buyer = new TestBuyer({ clock: seller.clock, open: (_peer, protocol) => seller.open('buyer', protocol) })
  const { payment } = await buyer.execute()
  const id = payment!.payment_id as Hex
  await until(async () => (await seller.payments.get(id))?.state === 'settled' || seller.clock.advance(2_000))
  const receipt = await ask(buyer, id)
  const verified = await verifyReceiptSignatureEIP712(receipt as EIP712SignedReceipt)
  expect(verified).toMatchObject({ signer: payTo, payload: { payer: testWallet().address } })
  expect(verified.payload.transaction).toBe((await seller.payments.get(id))?.txHash)
})

/** A purchase with a good receipt, of a seller that answers a question for another one by `answer`. */
async function boughtFrom(answer: (stream: ScriptedStream) => Promise<void>, sent: 'good' | 'none' = 'good') {
  const seller = new ScriptedSeller(async (stream) => {
    if (buyer.answered) return answer(stream)
    await stream.challenge(await stream.next())
    const paid = await stream.next()
    const { paymentId } = (await buyer.ledger())[0]!.reservation!
    const delivery = { network: 'eip155:84532', agentId, payer: testWallet().address, task: 'task', result: 'result' }
    const receipt = sellerWallet.signReceipt(receiptOf({ ...delivery, paymentId }, 0))
    await stream.respond(paid, { payment_id: paymentId, ...(sent === 'good' && { receipt }) })
    await answer(stream)
  })
  const buyer = Object.assign(new TestBuyer({ open: seller.open }), { answered: false })
  const { payment } = await buyer.execute()
  buyer.answered = true
  return { seller, asked: ask(buyer, payment!.payment_id) }
}

test('a seller that does not know the method is named as one, and the payment was not sent as a payment', async () => {
  const { asked, seller } = await boughtFrom(async (stream) => {
    await stream.refuse(await stream.next(), 'INVALID_MESSAGE', { error_code: 1000, retryable: false })
  })
  await expect(asked).rejects.toMatchObject({
    code: 'SELLER_FAILED',
    message: expect.stringContaining('does not know'),
  })
  expect(seller.received.at(-1)?.message).toMatchObject({ method: 'receipt', payment: { server_nonce: 'preemptive' } })
})

test('what a seller says of the payment is passed on', async () => {
  const { asked } = await boughtFrom(async (stream) => {
    await stream.refuse(await stream.next(), 'SETTLEMENT_FAILED', { error_code: 2007, retryable: true })
  })
  await expect(asked).rejects.toMatchObject({ code: 'SETTLEMENT_FAILED', retryable: true })
})

test.each([
  ['of another signer', testWallet(7), {}, 'signed by'],
  ['of another agent', sellerWallet, { agentId: 'another' }, 'another agent'],
  ['that is none', undefined, {}, 'cannot be read'],
])('a receipt %s is refused', async (_about, wallet, changes, reason) => {
  const delivered = { network: 'eip155:84532', agentId, payer: testWallet().address, issuedAt: 1, txHash: randomHex() }
  const receipt = wallet?.signX402Receipt(x402ReceiptOf({ ...delivered, ...changes }))
  const { asked } = await boughtFrom(async (stream) => stream.respond(await stream.next(), { body: '', receipt }))
  await expect(asked).rejects.toMatchObject({ code: 'SELLER_FAILED', message: expect.stringContaining(reason) })
})

test('a seller that signs no receipts is not asked: it might take the question for a payment', async () => {
  const { asked, seller } = await boughtFrom(async () => {}, 'none')
  await expect(asked).rejects.toMatchObject({ code: 'SELLER_FAILED' })
  expect(seller.received.filter(({ message }) => 'method' in message && message.method === 'receipt')).toEqual([])
})
