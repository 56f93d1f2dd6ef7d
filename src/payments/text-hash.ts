import { BoundedMap } from '../lib/bounded-map.ts'
import { getOr } from '../lib/get-or.ts'
import { keccak256 } from './keccak.ts'

/** What EIP-712 has in place of a text. */
export const textHash = (value: string): Uint8Array => keccak256(Buffer.from(value, 'utf8'))

const recurring = new BoundedMap<string, Uint8Array>(1_024)

/** The same of a text that comes again: the network, the resource and the payer of receipts. Do not change the bytes. */
export function recurringTextHash(value: string): Uint8Array {
  return getOr(recurring, value, () => textHash(value))
}
