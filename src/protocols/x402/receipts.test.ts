import { type EIP712SignedReceipt, verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import { describe, expect, test } from 'vitest'
import { unclear } from '../../../test/support/fake-settlement.ts'
import { agentId, payTo, randomHex, signed } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestSeller, told } from '../../../test/support/x402-seller.ts'
import { contentHash, receiptSigner } from '../../payments/receipt.ts'
import { MerkleReceipt, SignedReceipt } from '../../schema/receipt.ts'

const merkle = { receipt: 'merkle' }

async function bought(seller: TestSeller, wish: object = {}) {
  const peer = await seller.connect()
  const challenged = await peer.challenged({ body: base64('task'), ...wish })
  const { payment, correlation_id } = challenged
  const answer = await peer.paidRequest(payment, { correlation_id, body: base64('task'), ...wish })
  return { ...challenged, peer, answer }
}

describe('the receipts of one turn', () => {
  test('share a signature, for the buyers who ask for that', async () => {
    const seller = await startSeller()
    const { promise, resolve } = Promise.withResolvers<string>()
    seller.work = (call) => promise.then((end) => `${end} ${call.input}`)
    const buyers = ['a', 'b', 'c', 'd'].map(async (task, at) => {
      const peer = await seller.connect()
      const wish = { body: base64(task), ...(at < 3 && merkle) }
      const { payment, correlation_id } = await peer.challenged(wish)
      return peer.paidRequest(payment, { correlation_id, ...wish })
    })
    await until(() => seller.deps.running.size === 4)
    resolve('done')
    const receipts = (await Promise.all(buyers)).map((answer) => SignedReceipt.parse(answer?.message.receipt))
    expect(receipts.map(receiptSigner)).toEqual([payTo, payTo, payTo, payTo])
    const [first, ...others] = receipts.slice(0, 3).map((receipt) => MerkleReceipt.parse(receipt))
    expect(first).toMatchObject({ treeSize: 3, signature: others[0]?.signature })
    expect(others[1]?.signature).toBe(first?.signature)
    expect(receipts[3]?.format).toBe('eip712')
    const results = receipts.map(({ payload }) => payload.resultHash)
    expect(results).toEqual(['done a', 'done b', 'done c', 'done d'].map(contentHash))
  })

  test('that cannot be signed go without: a result is never lost to its receipt', async () => {
    const seller = await startSeller()
    seller.deps.receiptSigner.sign = () => Promise.reject(new Error('no key'))
    const { answer } = await bought(seller, merkle)
    expect([told(answer), answer?.message.receipt]).toEqual(['re: task', undefined])
    expect(seller.log.flat()).toContain('could not sign a receipt; the result goes without it')
  })
})

describe('a receipt that comes again with its result', () => {
  test('is the same one, also after a restart', async () => {
    const seller = await startSeller()
    const { answer, payment } = await bought(seller, merkle)
    await seller.stop()
    const again = await startSeller({ database: seller.database, clock: seller.clock })
    again.clock.advance(60_000)
    const told = await (await again.connect()).askResult(payment, merkle)
    expect(told?.message.receipt).toEqual(answer?.message.receipt)
    expect(receiptSigner(MerkleReceipt.parse(told?.message.receipt))).toBe(payTo)
  })

  test('has a signature of its own for a buyer that reads nothing else, and says the same', async () => {
    const seller = await startSeller()
    const { answer, payment } = await bought(seller, merkle)
    seller.clock.advance(60_000)
    const again = SignedReceipt.parse((await (await seller.connect()).askResult(payment))?.message.receipt)
    expect([again.format, receiptSigner(again)]).toEqual(['eip712', payTo])
    expect(again.payload).toEqual(MerkleReceipt.parse(answer?.message.receipt).payload)
  })

  test('stays as it was for a buyer that reads more now than when it paid', async () => {
    const seller = await startSeller()
    const { answer, payment } = await bought(seller)
    const again = await (await seller.connect()).askResult(payment, merkle)
    expect(again?.message.receipt).toEqual(answer?.message.receipt)
    expect(answer?.message.receipt).toMatchObject({ format: 'eip712' })
  })
})

test.each([true, 'eip712', 7, null, ['merkle'], {}])('a wish for a receipt like %j is none', async (receipt) => {
  const { answer } = await bought(await startSeller(), { receipt })
  expect(answer?.message.receipt).toMatchObject({ format: 'eip712' })
})

describe('method: "receipt"', () => {
  const ask = { method: 'receipt', body: '' }
  async function settled(seller: TestSeller, wish = {}) {
    const sale = await bought(seller, wish)
    await until(
      async () => (await seller.payments.get(sale.paymentId))?.state === 'settled' || seller.clock.advance(2_000),
    )
    return sale
  }

  test('gives the receipt that the package of x402 verifies, the same one each time', async () => {
    const seller = await startSeller()
    const { answer, payment, peer, paymentId } = await settled(seller, merkle)
    const asked = await peer.request({ ...ask, payment })
    expect([asked?.type, asked?.message.body, asked?.message.payment_id]).toEqual(['x402.response', '', paymentId])
    const receipt = asked?.message.receipt as EIP712SignedReceipt
    expect(await verifyReceiptSignatureEIP712(receipt)).toEqual({
      signer: payTo,
      payload: {
        version: 1,
        network: 'eip155:84532',
        resourceUrl: `x402+libp2p:${agentId}`,
        payer: payment.payer,
        issuedAt: MerkleReceipt.parse(answer?.message.receipt).payload.issuedAt,
        transaction: (await seller.payments.get(paymentId))?.txHash,
      },
    })
    seller.clock.advance(60_000)
    expect((await peer.request({ ...ask, payment }))?.message.receipt).toEqual(receipt)
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
  })

  test('gives it too for a result that went without a receipt', async () => {
    const seller = await startSeller()
    const { sign } = seller.deps.receiptSigner
    seller.deps.receiptSigner.sign = () => Promise.reject(new Error('no key'))
    const { payment, peer } = await settled(seller)
    seller.deps.receiptSigner.sign = sign
    const receipt = (await peer.request({ ...ask, payment }))?.message.receipt as EIP712SignedReceipt
    expect((await verifyReceiptSignatureEIP712(receipt)).signer).toBe(payTo)
  })

  test('waits for no settlement, and gives nothing before it', async () => {
    const seller = await startSeller()
    seller.settlement.usual = unclear
    const { payment, peer, answer } = await bought(seller)
    expect(told(answer)).toBe('re: task')
    const asked = await peer.request({ ...ask, payment })
    expect(asked?.message).toMatchObject({ error_name: 'SETTLEMENT_FAILED', retryable: true })
  })

  test.each([
    ['failed', 'EXECUTION_FAILED', false],
    ['was paid back', 'EXECUTION_FAILED', false],
    ['can never be settled', 'SETTLEMENT_FAILED', false],
  ])('of a payment that %s is refused', async (what, error_name, retryable) => {
    const seller = await startSeller()
    if (what === 'failed') seller.work = () => Promise.reject(new Error('no'))
    if (what === 'can never be settled') {
      seller.settlement.usual = { moves: false, answer: { kind: 'refused', reason: 'no money' } }
    }
    const { payment, peer, paymentId } = await bought(seller)
    const states = ['settled', 'voided', 'unsettled']
    await until(
      async () => states.includes((await seller.payments.get(paymentId))?.state ?? '') || seller.clock.advance(2_000),
    )
    if (what === 'was paid back') await seller.payments.paidBack(paymentId, randomHex(), seller.clock.now())
    const asked = await peer.request({ ...ask, payment })
    expect(asked?.message).toMatchObject({ error_name, retryable })
  })

  test('is for the peer that paid, and for its payment', async () => {
    const seller = await startSeller()
    const { payment, peer } = await settled(seller)
    const other = await seller.connect('another')
    expect(told(await other.request({ ...ask, payment }))).toBe('PAYMENT_INVALID')
    expect(told(await peer.request({ ...ask, payment, resource: 'free' }))).toBe('PAYMENT_INVALID')
    expect(told(await peer.request({ ...ask, payment: null }))).toBe('PAYMENT_REQUIRED')
    const unknown = signed(seller.clock.now()).envelope
    expect(told(await peer.request({ ...ask, payment: unknown }))).toBe('PAYMENT_REQUIRED')
  })
})
