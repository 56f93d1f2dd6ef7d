import type { Chain } from '../../chain/chain.ts'
import type { TakenOut } from '../../chain/channel-outflow.ts'
import { smallest } from '../../lib/bigints.ts'
import type { Clock } from '../../lib/clock.ts'
import { depositNonce } from '../../payments/channel-digests.ts'
import { missingIn } from '../../payments/channels/moved.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { BuyerChannels, Moved, SeenChannel } from '../../store/buyer-channels.ts'
import type { ChannelLine } from './channel-line.ts'

const DAY_MS = 24 * 60 * 60_000
/** A block this far past the window of a deposit shows that it will never happen: no reorganization of a rollup is so deep. */
const FINAL_MS = 60 * 60_000

export type MissingDeps = {
  clock: Clock
  store: Pick<BuyerChannels, 'seen'>
  chain: Pick<Chain, 'authorizationAt'>
  /** What the log of the chain shows to have left a channel. @throws ChainError */
  takenOut(asked: { id: Hex; wanted: bigint; days: number }, signal?: AbortSignal): Promise<TakenOut>
}

/** What the money of a channel counts by, beside a deposit under way. */
export function countedOf({ channel, moved }: ChannelLine): SeenChannel {
  return { onChain: channel.onChain, moved }
}

/**
 * Looks in the log of the chain for the money that a reading of a channel does not show any more, and stores what has left. What
 * a reorganization took back, and can never be put in again, does not count as put in any more.
 *
 * @returns what is still missing. `isWhole`: the RPC shows the log of the whole time, so its reading contradicts its log
 * @throws ChainError, StoreError, or the reason of `signal`
 */
export async function lookForMissing(
  line: ChannelLine,
  deps: MissingDeps,
  signal?: AbortSignal,
): Promise<{ missing: bigint; isWhole: boolean }> {
  const missing = missingIn(countedOf(line))
  if (missing === 0n) return { missing, isWhole: true }
  const { clock, takenOut } = deps
  const wanted = line.moved.out + missing
  // A clock that was wrong when the channel was opened makes the search longer or shorter, and nothing else.
  const days = Math.max(1, Math.ceil((clock.now() - line.createdAt) / DAY_MS) + 1)
  const { amount, isWhole } = await takenOut({ id: line.id, wanted, days }, signal)
  const out = smallest(amount, wanted)
  // A deposit that was made meanwhile stores what was put in. The next search finds this again.
  if (line.deposit !== undefined) return { missing, isWhole }
  if (out > line.moved.out) await count(line, { ...line.moved, out }, deps)
  await forgetUndone(line, deps, signal)
  return { missing: missingIn(countedOf(line)), isWhole }
}

/**
 * USDC itself says whether a deposit has happened: it notes each authorization. So an RPC that hides the log of a channel, or
 * what lies in it, frees nothing.
 */
async function forgetUndone(line: ChannelLine, deps: MissingDeps, signal?: AbortSignal): Promise<void> {
  const { payer, token } = line.channel.config
  for (const deposit of line.moved.deposits ?? []) {
    if (deposit.amount > missingIn(countedOf(line))) continue
    const nonce = depositNonce({ channelId: line.id, salt: deposit.salt })
    const { use, timeMs } = await deps.chain.authorizationAt(token as Hex, payer as Hex, nonce, signal)
    if (line.deposit !== undefined) return
    // Another search at the same time may have taken it off, or have found what has left.
    const isCounted = (line.moved.deposits ?? []).includes(deposit) && deposit.amount <= missingIn(countedOf(line))
    if (!isCounted || use.state !== 'unused') continue
    if (timeMs <= Number(deposit.validBefore) * 1000 + FINAL_MS) continue
    const deposits = (line.moved.deposits ?? []).filter(({ salt }) => salt !== deposit.salt)
    await count(line, { ...line.moved, in: line.moved.in - deposit.amount, deposits }, deps)
  }
}

async function count(line: ChannelLine, moved: Moved, { store, clock }: MissingDeps): Promise<void> {
  line.moved = moved
  await store.seen(line.id, countedOf(line), clock.now())
}
