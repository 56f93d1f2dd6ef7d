import { BoundedMap } from '../lib/bounded-map.ts'
import { getOr } from '../lib/get-or.ts'
import { keccak256 } from './keccak.ts'

/** The Keccak-256 hash of a text, as EIP-712 encodes it. */
export const textHash = (value: string): Uint8Array => keccak256(Buffer.from(value, 'utf8'))

const recurring = new BoundedMap<string, Uint8Array>(1_024)

/** The same, remembered: for the network, the resource and the payer of receipts. The caller must not change the bytes. */
export function recurringTextHash(value: string): Uint8Array {
  return getOr(recurring, value, () => textHash(value))
}
