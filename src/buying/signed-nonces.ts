import { BoundedMap } from '../lib/bounded-map.ts'
import { MarketError } from '../listings/market-error.ts'
import type { Hex } from '../schema/primitives.ts'

/** The newest nonces of challenges that this process has signed. */
const NONCES_MAX = 10_000
/** By the ledger in which their payments are. */
const signed = new WeakMap<object, BoundedMap<string, true>>()

/**
 * Takes the nonce of a challenge for one payment. The chain knows a payment by its nonce, which the seller names (D30): with one
 * nonce in two payments it would show both as paid when one is.
 *
 * @throws MarketError LISTING_MISMATCH if this process has signed it before
 */
export function takeNonce(ledger: object, nonce: Hex): void {
  const taken = signed.get(ledger) ?? new BoundedMap<string, true>(NONCES_MAX)
  signed.set(ledger, taken)
  const key = nonce.toLowerCase()
  if (taken.has(key)) {
    throw new MarketError('LISTING_MISMATCH', 'the seller names the nonce of an earlier payment: nothing was signed')
  }
  taken.set(key, true)
}
