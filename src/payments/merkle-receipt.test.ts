import { canonicalize } from '@x402/extensions/offer-receipt'
import fc from 'fast-check'
import { hashTypedData, verifyTypedData } from 'viem'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { randomHex, testWallet, usdc } from '../../test/support/payments.ts'
import { readVectors } from '../../test/support/read-vectors.ts'
import type { Hex } from '../schema/primitives.ts'
import { MerkleReceipt, type Receipt } from '../schema/receipt.ts'
import { packReceipt, unpackReceipt } from '../store/receipt-row.ts'
import { paymentIdOf } from './authorization.ts'
import { merkleSigner, receiptLeaf, receiptRootDigest, signTogether } from './merkle-receipt.ts'
import { leafHash } from './merkle-tree.ts'
import { receiptSigner } from './receipt.ts'
import { createReceiptSigner } from './receipt-signer.ts'
import { secp256k1 } from './secp256k1.ts'
import { createWallet } from './wallet.ts'

type Turn = {
  about: string
  private_key: Hex
  signer: Hex
  root: Hex
  digest: Hex
  leaves: Hex[]
  receipts: MerkleReceipt[]
}
const { turns } = readVectors<{ turns: Turn[] }>('merkle-receipts')
const hex = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}` as Hex
const typed = (root: Hex, size: number) =>
  ({
    domain: { name: 'Stoa receipts', version: '1' },
    types: {
      ReceiptRoot: [
        { name: 'treeSize', type: 'uint256' },
        { name: 'root', type: 'bytes32' },
      ],
    },
    primaryType: 'ReceiptRoot',
    message: { treeSize: BigInt(size), root },
  }) as const

describe.each(turns)('a turn $about', ({ private_key, signer, root, digest, leaves, receipts }) => {
  const wallet = createWallet(private_key, usdc)
  const payloads = receipts.map(({ payload }) => payload)

  test('is hashed and signed as the vectors say, in whatever order its receipts come', () => {
    expect(payloads.map(receiptLeaf)).toEqual(leaves)
    expect(paymentIdOf(receiptRootDigest({ root, treeSize: leaves.length }))).toBe(digest)
    expect(signTogether(payloads, wallet.signReceiptRoot)).toEqual(receipts)
    expect(signTogether(payloads.toReversed(), wallet.signReceiptRoot)).toEqual(receipts.toReversed())
  })

  test('has receipts that each show the signer alone, and come out of their rows as they went in', () => {
    for (const receipt of receipts) {
      expect(receiptSigner(JSON.parse(JSON.stringify(receipt)) as MerkleReceipt)).toBe(signer)
      const row = {
        agent_id: 'paidagent234567paidagent234567aa',
        network: receipt.payload.network,
        payer: receipt.payload.payer,
      }
      expect(unpackReceipt(packReceipt(receipt), receipt.payload.paymentId as Hex, row)).toEqual(receipt)
    }
  })

  test('viem agrees', async () => {
    const message = typed(root, leaves.length)
    expect(hashTypedData(message)).toBe(digest)
    expect(await verifyTypedData({ ...message, address: signer, signature: receipts[0]!.signature as Hex })).toBe(true)
  })
})

const some = turns.at(-1)!.receipts[2]!
const paymentId = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(hex)
const payload = fc.record({
  paymentId,
  resourceUrl: fc.string({ maxLength: 80, unit: 'binary' }),
  issuedAt: fc.nat(),
  taskHash: paymentId,
})
const receiptOf = (changes: Partial<Receipt>): Receipt => ({ ...some.payload, ...changes })

test('the leaf of any receipt is its canonical JSON, as the package of x402 writes it', () => {
  fc.assert(
    fc.property(payload, (changes) => {
      // That package has another escape for a tab or a line end than RFC 8785.
      fc.pre(!/\p{Cc}/u.test(changes.resourceUrl))
      const receipt = receiptOf(changes)
      expect(receiptLeaf(receipt)).toEqual(leafHash(canonicalize(receipt)))
    }),
  )
})

test('any receipts of a turn have one signature, and each is that of its payload only', () => {
  const wallet = testWallet(7)
  const many = fc.uniqueArray(payload, { minLength: 1, maxLength: 40, selector: (one) => one.paymentId })
  fc.assert(
    fc.property(many, fc.nat(), (changes, at) => {
      let signatures = 0
      const signed = signTogether(changes.map(receiptOf), (root) => {
        signatures++
        return wallet.signReceiptRoot(root)
      })
      expect(signatures).toBe(1)
      for (const [index, receipt] of signed.entries()) {
        expect(receipt.payload).toEqual(receiptOf(changes[index]!))
        expect(merkleSigner(receipt)).toBe(wallet.address)
        expect(MerkleReceipt.parse(receipt)).toEqual(receipt)
      }
      const one = signed[at % signed.length]!
      const forged = { ...one, payload: { ...one.payload, resultHash: randomHex() } }
      expect(merkleSigner(forged)).not.toBe(wallet.address)
      const other = signed[(at + 1) % signed.length]!
      if (other !== one) expect(merkleSigner({ ...one, payload: other.payload })).not.toBe(wallet.address)
    }),
    { numRuns: 25 },
  )
})

test('the receipts of one turn cost their buyer one recovery', () => {
  const wallet = testWallet(9)
  const payloads = Array.from({ length: 9 }, () => receiptOf({ paymentId: randomHex() }))
  const receipts = signTogether(payloads, wallet.signReceiptRoot)
  const recover = vi.spyOn(secp256k1, 'recover')
  onTestFinished(() => recover.mockRestore())
  expect(receipts.map(merkleSigner)).toEqual(Array(9).fill(wallet.address))
  // The signature alone is not what is remembered.
  expect(merkleSigner({ ...receipts[0]!, payload: receiptOf({ paymentId: randomHex() }) })).not.toBe(wallet.address)
  expect(recover).toHaveBeenCalledTimes(2)
})

test.each([
  ['another place', { leafIndex: 1 }],
  ['a place outside', { leafIndex: 5 }],
  ['another size', { treeSize: 6 }],
  ['a shorter path', { path: some.path.slice(1) }],
  ['a longer path', { path: [...some.path, some.path[0]!] }],
  ['another neighbor', { path: some.path.with(0, `0x${'00'.repeat(32)}`) }],
  ['another signature', { signature: turns[0]!.receipts[0]!.signature }],
  ['a signature of nobody', { signature: `0x${'00'.repeat(64)}1b` }],
] as [string, Partial<MerkleReceipt>][])('a receipt with %s is not signed by its seller', (_about, changes) => {
  expect(merkleSigner(some)).toBe(turns.at(-1)!.signer)
  expect(merkleSigner({ ...some, ...changes })).not.toBe(turns.at(-1)!.signer)
})

describe('the signer of a seller', () => {
  function counted() {
    const wallet = testWallet(7)
    const calls: string[] = []
    const signer = createReceiptSigner({
      ...wallet,
      signReceipt(receipt) {
        calls.push('own')
        return wallet.signReceipt(receipt)
      },
      signReceiptRoot(root) {
        calls.push(`root of ${root.treeSize}`)
        return wallet.signReceiptRoot(root)
      },
    })
    return { wallet, calls, signer }
  }
  const fresh = () => receiptOf({ paymentId: randomHex() })

  test('signs once for the receipts of one turn of the event loop, and again for the next', async () => {
    const { signer, calls, wallet } = counted()
    const first = [fresh(), fresh(), fresh()].map((receipt) => signer.sign(receipt, 'merkle'))
    // Results of one commit end in steps of one turn.
    const later = Promise.resolve().then(() => signer.sign(fresh(), 'merkle'))
    for (const receipt of await Promise.all([...first, later])) expect(receiptSigner(receipt)).toBe(wallet.address)
    await signer.sign(fresh(), 'merkle')
    expect(calls).toEqual(['root of 4', 'root of 1'])
  })

  test('signs at once for a buyer who reads no tree', async () => {
    const { signer, calls } = counted()
    const own = await signer.sign(fresh(), 'eip712')
    expect([own.format, calls]).toEqual(['eip712', ['own']])
  })

  test('that fails tells all who wait, and goes on with the next turn', async () => {
    const wallet = testWallet(7)
    let isBroken = true
    const signer = createReceiptSigner({
      ...wallet,
      signReceiptRoot(root) {
        if (isBroken) throw new Error('no key')
        return wallet.signReceiptRoot(root)
      },
    })
    const both = await Promise.allSettled([signer.sign(fresh(), 'merkle'), signer.sign(fresh(), 'merkle')])
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    isBroken = false
    expect(receiptSigner(await signer.sign(fresh(), 'merkle'))).toBe(wallet.address)
  })
})
