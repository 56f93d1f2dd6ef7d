import type { TakenOut } from '../../chain/channel-outflow.ts'
import { smallest } from '../../lib/bigints.ts'
import type { Clock } from '../../lib/clock.ts'
import { missingIn } from '../../payments/channels/moved.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { BuyerChannels, SeenChannel } from '../../store/buyer-channels.ts'
import type { ChannelLine } from './channel-line.ts'

const DAY_MS = 24 * 60 * 60_000

export type MissingDeps = {
  clock: Clock
  store: Pick<BuyerChannels, 'seen'>
  /** What the log of the chain shows to have left a channel. @throws ChainError */
  takenOut(asked: { id: Hex; wanted: bigint; days: number }, signal?: AbortSignal): Promise<TakenOut>
}

/** What the money of a channel counts by, beside a deposit under way. */
export function countedOf({ channel, moved }: ChannelLine): SeenChannel {
  return { onChain: channel.onChain, moved }
}

/**
 * Looks in the log of the chain for the money that a reading of a channel does not show any more, and stores what has left.
 *
 * @returns what is still missing. `isWhole`: the RPC shows the log of the whole time, so its reading contradicts its log
 * @throws ChainError, StoreError, or the reason of `signal`
 */
export async function lookForMissing(
  line: ChannelLine,
  { clock, store, takenOut }: MissingDeps,
  signal?: AbortSignal,
): Promise<{ missing: bigint; isWhole: boolean }> {
  const missing = missingIn(countedOf(line))
  if (missing === 0n) return { missing, isWhole: true }
  const { moved } = line
  const wanted = moved.out + missing
  // A clock that was wrong when the channel was opened makes the search longer or shorter, and nothing else.
  const days = Math.max(1, Math.ceil((clock.now() - line.createdAt) / DAY_MS) + 1)
  const { amount, isWhole } = await takenOut({ id: line.id, wanted, days }, signal)
  const out = smallest(amount, wanted)
  if (out <= moved.out) return { missing, isWhole }
  line.moved = { ...line.moved, out }
  await store.seen(line.id, countedOf(line), clock.now())
  return { missing: missingIn(countedOf(line)), isWhole }
}
