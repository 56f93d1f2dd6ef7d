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

export const SignedReceipt = z
  .object({ format: z.literal('eip712'), payload: Receipt, signature: Signature65 })
  .meta({ id: 'SignedReceipt', description: 'A receipt with the signature of the seller.' })
export type SignedReceipt = z.infer<typeof SignedReceipt>

/** The resource of a receipt: an agent, and the protocol that it is paid through. */
export function receiptResource(agentId: string): string {
  return `x402+libp2p:${agentId}`
}
