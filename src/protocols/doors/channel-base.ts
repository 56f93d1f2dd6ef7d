import type { OpenChannel } from '../../payments/channels/open-channel.ts'
import type { ServedAgent } from '../x402/exchange.ts'

/** The most that a call costs. */
export function priceOf({ pricing, amount }: Pick<ServedAgent, 'pricing' | 'amount'>): bigint {
  return pricing?.max ?? amount
}

/**
 * What was charged before a call whose voucher is right: exactly what this seller has charged and the price. A seller that has
 * no voucher of the channel has lost its records, and takes over what the voucher of an honest buyer says (ADR-32).
 * Undefined: the voucher is of another count, or calls of another door run.
 */
export function baseOf(
  { channel }: OpenChannel,
  ceiling: bigint,
  price: bigint,
): { total: bigint; seq: number } | undefined {
  const { charged, asked, best, seq } = channel
  // The best voucher may come again: its call has failed. Lower ones may be on the chain for all to see.
  if (asked > 0n || ceiling < (best?.maxClaimableAmount ?? 0n)) return undefined
  if (ceiling === charged + price) return { total: charged, seq }
  const isLost = best === undefined && ceiling > charged + price
  return isLost ? { total: ceiling - price, seq: seq + 1 } : undefined
}
