import type { Hex } from '../schema/primitives.ts'
import { receiptResource, type SignedReceipt } from '../schema/receipt.ts'
import { toBytes, toHex } from './hex.ts'

const SIGNATURE_BYTES = 65
const HASH_BYTES = 32
const TRANSACTION_AT = SIGNATURE_BYTES + 8 + 2 * HASH_BYTES

/** The columns of the row that the receipt repeats. */
type ReceiptRow = { agent_id: string; network: string; payer: string }

/**
 * Packs the parts of a receipt that its payment's row lacks: signature, time (8 bytes, seconds), two hashes and the
 * transaction, if any. Kept small, because every paid call writes the row.
 */
export function packReceipt({ payload, signature }: SignedReceipt): Uint8Array {
  const issuedAt = Buffer.alloc(8)
  issuedAt.writeBigUInt64BE(BigInt(payload.issuedAt))
  const transaction = payload.transaction === '' ? [] : [toBytes(payload.transaction)]
  return Buffer.concat([
    toBytes(signature),
    issuedAt,
    toBytes(payload.taskHash),
    toBytes(payload.resultHash),
    ...transaction,
  ])
}

export function unpackReceipt(packed: Uint8Array, paymentId: Hex, row: ReceiptRow): SignedReceipt {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength)
  const hash = (at: number) => toHex(bytes.subarray(at, at + HASH_BYTES))
  return {
    format: 'eip712',
    payload: {
      version: 1,
      network: row.network as SignedReceipt['payload']['network'],
      resourceUrl: receiptResource(row.agent_id),
      payer: row.payer as Hex,
      issuedAt: Number(bytes.readBigUInt64BE(SIGNATURE_BYTES)),
      transaction: bytes.length > TRANSACTION_AT ? hash(TRANSACTION_AT) : '',
      paymentId,
      taskHash: hash(SIGNATURE_BYTES + 8),
      resultHash: hash(SIGNATURE_BYTES + 8 + HASH_BYTES),
    },
    signature: toHex(bytes.subarray(0, SIGNATURE_BYTES)),
  }
}
