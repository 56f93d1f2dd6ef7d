import { hash } from 'node:crypto'
import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { type Receipt, receiptResource, SignedReceipt } from '../schema/receipt.ts'
import { sameAddress } from './assets.ts'
import { recoverSigner, typedDigest } from './authorization.ts'
import { merkleSigner } from './merkle-receipt.ts'
import { addressOfPublicKey } from './secp256k1.ts'
import { recurringTextHash, textHash } from './text-hash.ts'
import { x402ReceiptDomain } from './x402-receipt.ts'

const WORD_BYTES = 32
const FIELDS = 9

const RECEIPT_TYPE = textHash(
  'Receipt(uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction,bytes32 paymentId,bytes32 taskHash,bytes32 resultHash)',
)

/** What a receipt is about, as buyer and seller each know it. */
type Delivery = {
  network: string
  agentId: string
  payer: Hex
  paymentId: Hex
  task: string | Uint8Array
  result: string | Uint8Array
  txHash?: Hex | undefined
}

export function receiptOf(delivery: Delivery, now: UnixMs): Receipt {
  return {
    version: 1,
    network: delivery.network,
    resourceUrl: receiptResource(delivery.agentId),
    payer: delivery.payer,
    issuedAt: Math.floor(now / 1000),
    transaction: delivery.txHash?.toLowerCase() ?? '',
    paymentId: delivery.paymentId,
    taskHash: contentHash(delivery.task),
    resultHash: contentHash(delivery.result),
  }
}

/** When a result was given, in Unix seconds: its receipt says it. Without one, `otherwise`. */
export function givenAt(receipt: SignedReceipt | undefined, otherwise: UnixMs): number {
  return receipt?.payload.issuedAt ?? Math.floor(otherwise / 1000)
}

/** SHA-256, so that people can check it with `sha256sum`. */
export function contentHash(content: string | Uint8Array): Hex {
  return `0x${hash('sha256', content, 'hex')}`
}

/**
 * What a receipt with a signature of its own signs. Its type is longer than that of x402 whose domain it has, so only
 * Stoa checks it. It is for buyers who ask for no other format. New formats have a domain of their own.
 */
export function receiptDigest(receipt: Receipt): Uint8Array {
  const words = Buffer.alloc((FIELDS + 1) * WORD_BYTES)
  words.set(RECEIPT_TYPE, 0)
  words[2 * WORD_BYTES - 1] = receipt.version
  words.set(recurringTextHash(receipt.network), 2 * WORD_BYTES)
  words.set(recurringTextHash(receipt.resourceUrl), 3 * WORD_BYTES)
  words.set(recurringTextHash(receipt.payer), 4 * WORD_BYTES)
  words.writeBigUInt64BE(BigInt(receipt.issuedAt), 6 * WORD_BYTES - 8)
  words.set(recurringTextHash(receipt.transaction), 6 * WORD_BYTES)
  words.write(receipt.paymentId.slice(2), 7 * WORD_BYTES, WORD_BYTES, 'hex')
  words.write(receipt.taskHash.slice(2), 8 * WORD_BYTES, WORD_BYTES, 'hex')
  words.write(receipt.resultHash.slice(2), 9 * WORD_BYTES, WORD_BYTES, 'hex')
  return typedDigest(x402ReceiptDomain, words)
}

/** The account that signed a receipt, directly or by the root of its turn. */
export function receiptSigner(receipt: SignedReceipt): Hex | undefined {
  if (receipt.format === 'merkle') return merkleSigner(receipt)
  const recovered = recoverSigner(receiptDigest(receipt.payload), receipt.signature)
  return recovered.ok ? addressOfPublicKey(recovered.publicKey) : undefined
}

type ReceivedReceipt =
  | { status: 'valid'; receipt: SignedReceipt }
  | { status: 'missing' }
  | { status: 'wrong'; note: string }

/** Compares a seller's receipt with what was bought. Never throws: a bad receipt must not lose a paid result. */
export function checkReceipt(sent: unknown, bought: Delivery & { payTo: string }): ReceivedReceipt {
  if (sent === undefined || sent === null) return { status: 'missing' }
  const parsed = SignedReceipt.safeParse(sent)
  if (!parsed.success) return { status: 'wrong', note: 'it cannot be read as a receipt' }
  const receipt = parsed.data
  const { payload } = receipt
  const expected = receiptOf({ ...bought, txHash: undefined }, 0)
  for (const field of ['paymentId', 'network', 'resourceUrl', 'payer', 'taskHash', 'resultHash'] as const) {
    if (payload[field] !== expected[field]) return { status: 'wrong', note: `its ${field} is that of another call` }
  }
  const signer = receiptSigner(receipt)
  if (signer === undefined) return { status: 'wrong', note: 'its signature is invalid' }
  if (!sameAddress(signer, bought.payTo)) {
    return { status: 'wrong', note: `it is signed by ${signer}, not by the account that is paid` }
  }
  return { status: 'valid', receipt }
}
