import type { UnixMs } from '../../lib/clock.ts'
import type { StoredSellerChannel } from '../../store/seller-channels.ts'
import type { ChannelSums } from './channel-turn.ts'
import { type SellerChannel, unclaimedOf } from './seller-channel.ts'

/** A channel as it is on disk. Nothing runs on it. */
export function channelOf({ id, config, onChain, best, charged, seq, refund }: StoredSellerChannel): SellerChannel {
  return { id, config, onChain, best, charged, seq, refund, asked: 0n }
}

/** What is stored of a channel after a change. `seenAt`: when it was read on the chain, if this process has read it. */
export function recordOf(
  { peerId, channel }: ChannelSums,
  before: StoredSellerChannel,
  { now, seenAt = before.seenAt }: { now: UnixMs; seenAt?: UnixMs | undefined },
): StoredSellerChannel {
  const { onChain, best, charged, seq, refund } = channel
  const owedSince = unclaimedOf(channel) > 0n ? (before.owedSince ?? now) : undefined
  return { ...before, peerId, onChain, seenAt, best, charged, seq, refund, owedSince, usedAt: now }
}

/** True if a change that was stored without an answer is on disk. */
export function isStoredAs({ seq, charged, best, refund }: StoredSellerChannel, stored: StoredSellerChannel): boolean {
  const isBest = stored.best?.maxClaimableAmount === best?.maxClaimableAmount
  return stored.seq === seq && stored.charged === charged && isBest && stored.refund?.nonce === refund?.nonce
}
