import type { Hex } from '../schema/primitives.ts'

/** Hashes, nonces and signatures lie in the store as bytes: an index over them is half as large as over their text. */
export function toBytes(hex: string): Uint8Array {
  return Buffer.from(hex.slice(2), 'hex')
}

/** Lower case, whatever it was once written as. */
export function toHex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`
}
