import type { UnixMs } from '../../lib/clock.ts'
import type { OpenChannel } from '../../payments/channels/open-channel.ts'
import type { SellerChannels } from '../../payments/channels/seller-channels.ts'
import type { Hex } from '../../schema/primitives.ts'
import { asPeerError } from '../x402/channel-sale.ts'
import type { PaidRunDeps, ServedAgent } from '../x402/exchange.ts'

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

/** True if the chain shows a voucher to anybody: it was claimed. Not its payer alone may send it. */
export function isShown(open: OpenChannel | undefined, ceiling: bigint): boolean {
  return open !== undefined && ceiling > 0n && ceiling <= open.channel.onChain.totalClaimed
}

/** How long a channel must be left alone, before a voucher that the chain shows may close it. */
const LEFT_ALONE_MS = 60 * 60_000

/** Why a voucher does not close a channel now. Undefined: it does. */
export function keptOpen(open: OpenChannel, ceiling: bigint, now: UnixMs): string | undefined {
  if (!isShown(open, ceiling) || now - open.changedAt >= LEFT_ALONE_MS) return undefined
  return 'the chain shows this voucher to anybody, and the channel was used in the last hour: ask later, or after a call'
}

export const RESEND = 'Sign nothing new: send the same request with the same payment again'

type Unstored = { kind: 'pending' | 'busy'; reason: string }

/**
 * What a request hears while calls of its channel have ended that the ledger cannot store, because its disk is full, say. The
 * sums are those of before. A client that is corrected by them would take a call that was run for refused.
 */
export function unstored(
  { id, channelId }: { id: Hex; channelId: Hex },
  { running, channels }: Pick<PaidRunDeps, 'running'> & { channels: SellerChannels },
): Unstored | undefined {
  if (channels.owned(channelId)?.isKeeping !== true) return undefined
  if (running.has(id)) return { kind: 'pending', reason: `this call was run, and cannot be stored yet. ${RESEND}` }
  return {
    kind: 'busy',
    reason: 'this seller cannot store calls on this channel now: nothing was charged for this one',
  }
}

/** An error of a channel as the peer is told it. */
export function asKnown(error: unknown): unknown {
  try {
    return asPeerError(error)
  } catch (cause) {
    return cause
  }
}
