import { hashReceiptTypedData, verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import { expect, test } from 'vitest'
import { agentId, sellerWallet, testWallet, usdc } from '../../test/support/payments.ts'
import { readVectors } from '../../test/support/read-vectors.ts'
import type { Hex } from '../schema/primitives.ts'
import { SignedReceipt, type X402Receipt } from '../schema/receipt.ts'
import { paymentIdOf } from './authorization.ts'
import { createWallet } from './wallet.ts'
import { checkX402Receipt, x402ReceiptDigest, x402ReceiptOf, x402ReceiptSigner } from './x402-receipt.ts'

type Vector = { about: string; private_key: Hex; signer: Hex; payload: X402Receipt; digest: Hex; signature: Hex }
const { x402 } = readVectors<{ x402: Vector[] }>('merkle-receipts')

test.each(x402)('$about it is hashed and signed as the vectors say', (vector) => {
  const { payload, digest, signature, signer } = vector
  expect(paymentIdOf(x402ReceiptDigest(payload))).toBe(digest)
  const signed = createWallet(vector.private_key, usdc).signX402Receipt(payload)
  expect(signed).toEqual({ format: 'eip712', payload, signature })
  expect(x402ReceiptSigner(signed)).toBe(signer)
})

const bought = { network: 'eip155:84532', agentId, payer: testWallet().address, payTo: sellerWallet.address }
const payload = x402ReceiptOf({ ...bought, issuedAt: 1_767_225_600, txHash: `0x${'9A'.repeat(32)}` })
const good = sellerWallet.signX402Receipt(payload)

test('the verifier of @x402/extensions takes it, and no receipt of Stoa itself', async () => {
  expect(paymentIdOf(x402ReceiptDigest(payload))).toBe(hashReceiptTypedData(payload))
  expect(await verifyReceiptSignatureEIP712(good)).toEqual({ signer: sellerWallet.address, payload })
  expect(SignedReceipt.safeParse(good).success).toBe(false)
})

test('one of what was bought is taken', () => {
  expect(checkX402Receipt(JSON.parse(JSON.stringify(good)), bought)).toEqual({ ok: true, receipt: good })
})

const resigned = (changes: Partial<X402Receipt>) => sellerWallet.signX402Receipt({ ...payload, ...changes })
test.each([
  ['of another network', resigned({ network: 'eip155:8453' }), 'on eip155:8453'],
  ['of another agent', resigned({ resourceUrl: 'x402+libp2p:other' }), 'another agent'],
  ['of another payer', resigned({ payer: sellerWallet.address }), 'another payer'],
  ['of another signer', testWallet(5).signX402Receipt(payload), 'signed by'],
  ['changed after it was signed', { ...good, payload: { ...payload, issuedAt: 5 } }, 'signed by'],
  ['with a signature of nobody', { ...good, signature: `0x${'00'.repeat(64)}1b` }, 'signature is invalid'],
  ['without a transaction', resigned({ transaction: '' }), 'no transaction'],
  ['that is none', undefined, 'cannot be read'],
])('one %s is refused', (_about, sent, reason) => {
  expect(checkX402Receipt(sent, bought)).toEqual({ ok: false, reason: expect.stringContaining(reason) })
})
