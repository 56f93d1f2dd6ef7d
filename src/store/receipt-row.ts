import type { Hex } from '../schema/primitives.ts'
import { receiptResource, type SignedReceipt } from '../schema/receipt.ts'
import { toHex } from './hex.ts'

const SIGNATURE_BYTES = 65
const TIME_BYTES = 8
const HASH_BYTES = 32
const PLACE_BYTES = 6
const KIND_BYTES = 1
/** Numbers have 48 bits at most. */
const UINT_END = 2 ** 48
/** What a receipt with a signature of its own takes, before and after settlement. Its rows have no byte that says so. */
const PLAIN_BYTES = SIGNATURE_BYTES + TIME_BYTES + 2 * HASH_BYTES
const PLAIN_SETTLED_BYTES = PLAIN_BYTES + HASH_BYTES
/** The first byte of a receipt of a Merkle tree, without and with a transaction. No length of it is one of the above. */
const MERKLE = 1
const MERKLE_SETTLED = 2

/** The columns of the row that the receipt repeats. */
type ReceiptRow = { agent_id: string; network: string; payer: string }

/**
 * Packs the parts of a receipt that its payment's row lacks: signature, time (8 bytes, seconds), two hashes and the
 * transaction, if any. A receipt of a Merkle tree has a byte before them, and its place (6 bytes), the size of the tree
 * (6 bytes) and its path after them. Kept small, because every paid call writes the row.
 */
export function packReceipt(receipt: SignedReceipt): Uint8Array {
  const { payload, signature } = receipt
  const { issuedAt, taskHash, resultHash, transaction } = payload
  const isSettled = transaction !== ''
  // One buffer of one text: many small buffers take most of the time of a receipt.
  const plain = `${bare(signature)}${uint(issuedAt, TIME_BYTES)}${bare(taskHash)}${bare(resultHash)}${bare(transaction)}`
  if (receipt.format === 'eip712') return Buffer.from(plain, 'hex')
  const { leafIndex, treeSize, path } = receipt
  const kind = uint(isSettled ? MERKLE_SETTLED : MERKLE, KIND_BYTES)
  const place = `${uint(leafIndex, PLACE_BYTES)}${uint(treeSize, PLACE_BYTES)}`
  return Buffer.from(`${kind}${plain}${place}${path.map(bare).join('')}`, 'hex')
}

export function unpackReceipt(packed: Uint8Array, paymentId: Hex, row: ReceiptRow): SignedReceipt {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength)
  const isPlain = bytes.length === PLAIN_BYTES || bytes.length === PLAIN_SETTLED_BYTES
  const isSettled = isPlain ? bytes.length === PLAIN_SETTLED_BYTES : bytes[0] === MERKLE_SETTLED
  let at = isPlain ? 0 : 1
  const take = (length: number) => {
    at += length
    return bytes.subarray(at - length, at)
  }
  const signature = toHex(take(SIGNATURE_BYTES))
  const payload: SignedReceipt['payload'] = {
    version: 1,
    network: row.network as SignedReceipt['payload']['network'],
    resourceUrl: receiptResource(row.agent_id),
    payer: row.payer as Hex,
    issuedAt: take(TIME_BYTES).readUIntBE(TIME_BYTES - 6, 6),
    paymentId,
    taskHash: toHex(take(HASH_BYTES)),
    resultHash: toHex(take(HASH_BYTES)),
    transaction: isSettled ? toHex(take(HASH_BYTES)) : '',
  }
  if (isPlain) return { format: 'eip712', payload, signature }
  const leafIndex = take(PLACE_BYTES).readUIntBE(0, PLACE_BYTES)
  const treeSize = take(PLACE_BYTES).readUIntBE(0, PLACE_BYTES)
  const path: Hex[] = []
  while (at < bytes.length) path.push(toHex(take(HASH_BYTES)))
  return { format: 'merkle', payload, leafIndex, treeSize, path, signature }
}

/** Hex without its `0x`. */
const bare = (hex: string) => hex.slice(2)

/** A whole number of less than 2^48 as big-endian bytes in hex. */
function uint(value: number, length: number): string {
  if (!Number.isInteger(value) || value < 0 || value >= UINT_END) throw new RangeError(`${value} is no 48-bit number`)
  return value.toString(16).padStart(2 * length, '0')
}
