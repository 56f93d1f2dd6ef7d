import { createHash } from 'node:crypto'
import type { UnixMs } from '../../lib/clock.ts'
import type { OpenChannel } from '../../payments/channels/open-channel.ts'
import type { SellerChannel } from '../../payments/channels/seller-channel.ts'
import type { SellerChannels } from '../../payments/channels/seller-channels.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelPayload } from '../../schema/x402-http.ts'
import { asPeerError } from '../x402/channel-sale.ts'
import type { PaidRunDeps, ServedAgent } from '../x402/exchange.ts'
import { RESEND } from './channel-answers.ts'

/** The most that a call costs. */
export function priceOf({ pricing, amount }: Pick<ServedAgent, 'pricing' | 'amount'>): bigint {
  return pricing?.max ?? amount
}

/**
 * Returns the count before a call whose voucher is right. A right voucher is for exactly what this seller has charged and the
 * price. It may be lower than the best one: a dearer call has failed, or has used less than its most. A seller that has no
 * voucher of the channel has lost its records, and takes over the count of an honest buyer (ADR-32). Unless all that lies in the
 * channel came with this very request: then nothing was charged before.
 *
 * @returns undefined if the voucher has another count, or calls of another door run on the channel
 */
export function baseOf(
  { channel }: OpenChannel,
  payload: ChannelPayload,
  price: bigint,
): { total: bigint; seq: number } | undefined {
  const ceiling = payload.voucher.maxClaimableAmount
  const { charged, asked, best, seq } = channel
  if (asked > 0n) return undefined
  if (ceiling === charged + price) return { total: charged, seq }
  const isNew = payload.type === 'deposit' && payload.deposit.amount === channel.onChain.balance
  const isLost = best === undefined && !isNew && ceiling > charged + price
  return isLost ? { total: ceiling - price, seq: seq + 1 } : undefined
}

/** The id of a call on a channel is made of this. A voucher that was not charged may be sent with another task. */
export function correlationOf(ceiling: bigint, boundTo: Uint8Array): string {
  const digest = createHash('sha256').update(`${ceiling}\n`).update(boundTo).digest('hex')
  return digest.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** True if a voucher was claimed, so that the chain shows it to anybody. Then others than its payer may send it. */
export function isShown(channel: Pick<SellerChannel, 'onChain'> | undefined, ceiling: bigint): boolean {
  return channel !== undefined && ceiling > 0n && ceiling <= channel.onChain.totalClaimed
}

/** How long a channel must be left alone, before a voucher that the chain shows may close it. */
const LEFT_ALONE_MS = 60 * 60_000

/** Why a voucher may not close a channel yet. Undefined: it may. */
export function keptOpen(
  channel: Pick<SellerChannel, 'onChain'> & { usedAt: UnixMs },
  ceiling: bigint,
  now: UnixMs,
): string | undefined {
  if (!isShown(channel, ceiling) || now - channel.usedAt >= LEFT_ALONE_MS) return undefined
  return 'the chain shows this voucher to anybody, and the channel was used in the last hour: ask later, or after a call'
}

type Unstored = { kind: 'pending'; reason: string } | { kind: 'busy'; reason: string; settlement: 'none' }

/**
 * The answer to a request while the ledger cannot store ended calls of its channel, for example on a full disk. The sums of
 * the channel lack these calls. A client that was corrected by them would count a call as refused that was run.
 */
export function unstored(
  { id, channelId }: { id: Hex; channelId: Hex },
  { running, channels }: Pick<PaidRunDeps, 'running'> & { channels: SellerChannels },
): Unstored | undefined {
  if (channels.owned(channelId)?.isKeeping !== true) return undefined
  if (running.has(id)) return { kind: 'pending', reason: `this call was run, and cannot be stored yet. ${RESEND}` }
  return {
    kind: 'busy',
    reason: 'this seller cannot store calls on this channel now',
    settlement: 'none',
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
