import { createHash } from 'node:crypto'
import { hashTypedData, verifyTypedData } from 'viem'
import { expect, test } from 'vitest'
import { usdc } from '../../test/support/payments.ts'
import { readVectors } from '../../test/support/read-vectors.ts'
import type { Hex } from '../schema/primitives.ts'
import { type Receipt, SignedReceipt } from '../schema/receipt.ts'
import { packReceipt, unpackReceipt } from '../store/receipt-row.ts'
import { paymentIdOf } from './authorization.ts'
import { checkReceipt, contentHash, receiptDigest, receiptOf, receiptSigner } from './receipt.ts'
import { createWallet } from './wallet.ts'

type Vector = {
  about: string
  private_key: Hex
  signer: Hex
  task: string
  result: string
  payload: Receipt
  digest: Hex
  signature: Hex
}
const { receipts } = readVectors<{ receipts: Vector[] }>('receipts')
const agentId = 'paidagent234567paidagent234567aa'

const field = (name: string, type: string) => ({ name, type })
const typed = (payload: Receipt) =>
  ({
    domain: { name: 'x402 receipt', version: '1', chainId: 1 },
    types: {
      Receipt: [
        field('version', 'uint256'),
        ...['network', 'resourceUrl', 'payer'].map((name) => field(name, 'string')),
        field('issuedAt', 'uint256'),
        field('transaction', 'string'),
        ...['paymentId', 'taskHash', 'resultHash'].map((name) => field(name, 'bytes32')),
      ],
    },
    primaryType: 'Receipt',
    message: { ...payload, version: 1n, issuedAt: BigInt(payload.issuedAt) },
  }) as const

test.each(receipts)('a receipt $about is hashed, signed and recovered as the vectors say', (vector) => {
  const wallet = createWallet(vector.private_key, usdc)
  const { payload, digest, signature, signer } = vector
  expect(paymentIdOf(receiptDigest(payload))).toBe(digest)
  expect(wallet.signReceipt(payload)).toEqual({ format: 'eip712', payload, signature })
  expect(receiptSigner({ format: 'eip712', payload, signature })).toBe(signer)
  expect([contentHash(vector.task), contentHash(vector.result)]).toEqual([payload.taskHash, payload.resultHash])
})

test.each(receipts)('viem agrees on a receipt $about', async ({ payload, digest, signature, signer }) => {
  expect(hashTypedData(typed(payload))).toBe(digest)
  expect(await verifyTypedData({ ...typed(payload), address: signer, signature })).toBe(true)
})

test.each(receipts)('a receipt $about comes out of its row as it went in', ({ payload, signature }) => {
  const receipt: SignedReceipt = { format: 'eip712', payload, signature }
  const row = { agent_id: agentId, network: payload.network, payer: payload.payer }
  expect(unpackReceipt(packReceipt(receipt), payload.paymentId as Hex, row)).toEqual(receipt)
})

const seller = createWallet(receipts[0]!.private_key, usdc)
const bought = {
  network: 'eip155:84532',
  agentId,
  payer: '0x08c86B491A37C2FFC25072a17c7A97EF2D0357dd',
  paymentId: receipts[0]!.payload.paymentId as Hex,
  task: 'task',
  result: 'result',
  payTo: seller.address.toLowerCase(),
} as const
const good = seller.signReceipt(receiptOf(bought, Date.UTC(2026, 0, 1)))
const resigned = (changes: Partial<Receipt>) => seller.signReceipt({ ...good.payload, ...changes })

test('a receipt of what was bought, by the account that is paid, is kept', () => {
  expect(checkReceipt(JSON.parse(JSON.stringify(good)), bought)).toEqual({ status: 'valid', receipt: good })
})

test('one that is about a transaction, or a moment, of the seller’s own choice is kept too: it proves neither', () => {
  const receipt = resigned({ transaction: `0x${'9a'.repeat(32)}`, issuedAt: 1 })
  expect(checkReceipt(receipt, bought)).toEqual({ status: 'valid', receipt })
})

test.each([undefined, null])('%s is no receipt', (sent) => {
  expect(checkReceipt(sent, bought)).toEqual({ status: 'missing' })
})

const zeros = `0x${'0'.repeat(64)}`
test.each([
  ['of another payment', resigned({ paymentId: zeros }), 'paymentId'],
  ['of another network', resigned({ network: 'eip155:8453' }), 'network'],
  ['of another agent', resigned({ resourceUrl: 'x402+libp2p:other' }), 'resourceUrl'],
  ['of another payer', resigned({ payer: seller.address }), 'payer'],
  ['of another task', resigned({ taskHash: zeros }), 'taskHash'],
  ['of another result', resigned({ resultHash: zeros }), 'resultHash'],
  ['of another signer', createWallet(receipts[2]!.private_key, usdc).signReceipt(good.payload), 'signed by'],
  ['changed after it was signed', { ...good, payload: { ...good.payload, issuedAt: 5 } }, 'signed by'],
  ['with a signature of nobody', { ...good, signature: `0x${'00'.repeat(64)}1b` }, 'its signature is invalid'],
  ['of a later version', { ...good, payload: { ...good.payload, version: 2 } }, 'cannot be read'],
  ['that is a text', 'receipt', 'cannot be read'],
  ['with a number too large to hash', { ...good, payload: { ...good.payload, issuedAt: 2 ** 53 } }, 'cannot be read'],
])('a receipt %s is wrong', (_about, sent, note) => {
  expect(checkReceipt(sent, bought)).toEqual({ status: 'wrong', note: expect.stringContaining(note) })
})

test('hashes are those of sha256sum', () => {
  expect(contentHash('Grüße')).toBe(`0x${createHash('sha256').update('Grüße').digest('hex')}`)
  expect(SignedReceipt.parse(good)).toEqual(good)
})
