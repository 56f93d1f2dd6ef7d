import type { Hex } from '../schema/primitives.ts'

const EMPTY = new Uint8Array(0)

/** Hashes, nonces and signatures are stored as bytes: an index over bytes is half as large as over text. */
export function toBytes(hex: string): Uint8Array {
  // A call on a channel has no signature of its own, and no nonce.
  if (hex === '0x') return EMPTY
  return Buffer.from(hex.slice(2), 'hex')
}

/** Always lower case. */
export function toHex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`
}
