import type { Hex } from '../schema/primitives.ts'

/** Hashes, nonces and signatures are stored as bytes: an index over bytes is half as large as over text. */
export function toBytes(hex: string): Uint8Array {
  return Buffer.from(hex.slice(2), 'hex')
}

/** Always lower case. */
export function toHex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`
}
