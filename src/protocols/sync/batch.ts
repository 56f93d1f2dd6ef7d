import { CodedError } from '../../lib/errors.ts'

const LENGTH_BYTES = 4

export class BatchError extends CodedError<'BATCH_INVALID'> {
  override name = 'BatchError'
}

type BatchLimits = { itemsMax: number; itemBytesMax: number }

/**
 * Encodes a list of envelopes for gossip and catch-up.
 *
 * ```bnf
 * batch ::= item*
 * item  ::= length(u32be, 1..itemBytesMax) envelope
 * ```
 */
export function encodeBatch(items: readonly Uint8Array[]): Uint8Array {
  const batch = Buffer.allocUnsafe(items.reduce((sum, item) => sum + LENGTH_BYTES + item.length, 0))
  let offset = 0
  for (const item of items) {
    offset = batch.writeUInt32BE(item.length, offset)
    batch.set(item, offset)
    offset += item.length
  }
  return batch
}

/** The envelopes, as views of `bytes`. @throws BatchError */
export function decodeBatch(bytes: Uint8Array, { itemsMax, itemBytesMax }: BatchLimits): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const items: Uint8Array[] = []
  for (let offset = 0; offset < bytes.length; ) {
    if (items.length === itemsMax) throw new BatchError('BATCH_INVALID', `more than ${itemsMax} envelopes in a batch`)
    const start = offset + LENGTH_BYTES
    const length = start <= bytes.length ? view.getUint32(offset) : 0
    if (length === 0 || length > itemBytesMax || start + length > bytes.length) {
      throw new BatchError('BATCH_INVALID', `an envelope of the batch is empty, cut or over ${itemBytesMax} bytes`)
    }
    offset = start + length
    items.push(bytes.subarray(start, offset))
  }
  return items
}

/** Splits envelopes, in order, into as few batches as the limits allow. */
export function* splitBatches(
  items: Iterable<Uint8Array>,
  { itemsMax, bytesMax }: { itemsMax: number; bytesMax: number },
): Generator<Uint8Array[]> {
  let batch: Uint8Array[] = []
  let bytes = 0
  for (const item of items) {
    const size = LENGTH_BYTES + item.length
    if (batch.length > 0 && (batch.length === itemsMax || bytes + size > bytesMax)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(item)
    bytes += size
  }
  if (batch.length > 0) yield batch
}
