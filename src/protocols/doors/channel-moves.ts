import type { Clock } from '../../lib/clock.ts'
import { doubledMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import type { SellerChannels } from '../../payments/channels/seller-channels.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { StoredSellerChannel } from '../../store/seller-channels.ts'
import { PeerError } from '../peer-error.ts'
import { busy, type ChannelAnswer, corrected, refused } from './channel-answers.ts'
import { isShown, keptOpen } from './channel-base.ts'

/**
 * How long a request waits in all for a channel that another process of this seller has. A process that was killed has it
 * until its lease is over and others have looked: 25 s.
 */
const MOVES_MS = 35_000
const LOOKS = { firstMs: 20, mostMs: 500 }

/** When a request that comes now waits no longer, by the time of `performance.now()`. */
export function lastWait(): number {
  return performance.now() + MOVES_MS
}

type Moving = { channelId: Hex; peerId: string; ceiling: bigint; isRefund: boolean; waitsUntil: number }

/**
 * Waits until no other process of this seller has a channel. That process gives it up as soon as no call runs on it. Clients of
 * x402 do not ask again after 503, and a proxy may spread their requests over the processes.
 *
 * @returns the answer to a request that does not get the channel. @throws StoreError, or the signal's reason
 */
export async function untilMoved(
  request: Moving,
  { channels, clock }: { channels: SellerChannels; clock: Clock },
  signal: AbortSignal,
): Promise<ChannelAnswer | undefined> {
  const { channelId, waitsUntil } = request
  for (let looks = 1; ; looks++) {
    const stored = channels.owned(channelId) === undefined ? await channels.onDisk(channelId) : undefined
    // What a peer may not use is refused without the channel.
    if (stored === undefined || !isUsedBy(stored, request)) return undefined
    const refusal = unmoved(stored, request, clock.now())
    if (!(await channels.isWithAnother(channelId, { asks: refusal === undefined }))) return undefined
    if (refusal !== undefined) return refusal
    if (performance.now() >= waitsUntil) return busy('another process of this seller works on this channel', 'unknown')
    await pause(doubledMs(looks, LOOKS), signal)
    signal.throwIfAborted()
  }
}

function isUsedBy({ peerId, best }: StoredSellerChannel, request: Moving): boolean {
  return peerId === request.peerId || request.ceiling > (best?.maxClaimableAmount ?? 0n)
}

/**
 * The answer to a voucher that must not move a channel from process to process: the chain shows it to anybody, or it is not
 * above what was charged, so it can buy nothing. What is on disk is what the payer was told.
 */
function unmoved(
  { onChain, usedAt, best, charged, id }: StoredSellerChannel,
  { ceiling, isRefund }: Moving,
  now: number,
): ChannelAnswer | undefined {
  if (isRefund) {
    const kept = keptOpen({ onChain, usedAt }, ceiling, now)
    return kept === undefined ? undefined : refused(kept)
  }
  if (!isShown({ onChain }, ceiling) && ceiling > charged) return undefined
  return corrected({ id, onChain, best, charged })
}

/** True if a channel went to another process before the call could begin. Nothing was charged. */
export function isMovedAway(error: unknown): boolean {
  return error instanceof PeerError && error.channel?.reason === 'elsewhere'
}
