import * as z from 'zod'
import { Address, AnyNetwork, Signature65 } from './primitives.ts'

const Hash = z.string().regex(/^0x[0-9a-f]{64}$/)
/** Every hash of a receipt in lower case, so that a stored receipt is returned unchanged. */
const TaskHash = Hash.meta({ description: 'SHA-256 of the task as UTF-8, 0x-prefixed' })
const ResultHash = Hash.meta({ description: 'SHA-256 of the bytes of the result, 0x-prefixed' })

/** What a seller signs after delivery: x402's offer-receipt fields, plus payment, task and result. Names are x402's. */
export const Receipt = z.object({
  version: z.literal(1),
  network: AnyNetwork,
  resourceUrl: z.string().max(512),
  /** In the spelling of the payment. */
  payer: Address,
  /** Unix seconds, by the seller's clock. */
  issuedAt: z
    .int()
    .min(0)
    .max(2 ** 40),
  /** Empty if the receipt was signed before settlement, which is the case unless the seller settles first. */
  transaction: z.union([Hash, z.literal('')]),
  paymentId: Hash,
  taskHash: TaskHash,
  resultHash: ResultHash,
})
export type Receipt = z.infer<typeof Receipt>

const Eip712Receipt = z
  .object({ format: z.literal('eip712'), payload: Receipt, signature: Signature65 })
  .meta({ id: 'Eip712Receipt', description: 'A receipt with a signature of its own.' })

/** Levels of a Merkle tree: no turn has more receipts than 2 to this power. */
const TREE_LEVELS_MAX = 32

export const MerkleReceipt = z
  .object({
    format: z.literal('merkle'),
    payload: Receipt,
    /** The place of this receipt among those of its turn, which are sorted by payment id. */
    leafIndex: z.int().min(0),
    treeSize: z
      .int()
      .min(1)
      .max(2 ** TREE_LEVELS_MAX),
    path: z
      .array(Hash)
      .max(TREE_LEVELS_MAX)
      .meta({ description: 'neighbors from the leaf up to the root, 0x-prefixed' }),
    signature: Signature65,
  })
  .meta({ id: 'MerkleReceipt', description: 'A receipt whose signature is that of all receipts of one turn.' })
export type MerkleReceipt = z.infer<typeof MerkleReceipt>

export const SignedReceipt = z.discriminatedUnion('format', [Eip712Receipt, MerkleReceipt]).meta({
  id: 'SignedReceipt',
  description: 'A receipt with the signature of the seller.',
})
export type SignedReceipt = z.infer<typeof SignedReceipt>
export type ReceiptForm = SignedReceipt['format']

/** A receipt of x402's offer-receipt extension: what every client of x402 reads. It does not say which payment or result. */
export const X402Receipt = z.strictObject({
  version: z.literal(1),
  network: AnyNetwork,
  resourceUrl: z.string().max(512),
  payer: Address,
  issuedAt: z
    .int()
    .min(0)
    .max(2 ** 40)
    .meta({ description: 'Unix seconds, by the clock of the seller: when it signed the result' }),
  transaction: z.union([Hash, z.literal('')]).meta({ description: 'the settlement; empty for a call on a channel' }),
})
export type X402Receipt = z.infer<typeof X402Receipt>

export const SignedX402Receipt = z
  .object({ format: z.literal('eip712'), payload: X402Receipt, signature: Signature65 })
  .meta({ id: 'SignedX402Receipt', description: "A receipt of x402's offer-receipt extension." })
export type SignedX402Receipt = z.infer<typeof SignedX402Receipt>

/**
 * The resource of a receipt: an agent, and the protocol of its seller.
 *
 * @param agentId of a purchase over HTTP, its URL without the query: the last part of the path is the id that the seller signs
 */
export function receiptResource(agentId: string): string {
  const id = /^https?:\/\//.test(agentId) ? agentId.slice(agentId.lastIndexOf('/') + 1) : agentId
  return `x402+libp2p:${id}`
}
