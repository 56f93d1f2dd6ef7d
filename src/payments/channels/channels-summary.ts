import { largest } from '../../lib/bigints.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelsSight } from './channel-keeper.ts'
import { lostOf } from './channel-readings.ts'
import { claimOf, unclaimedOf } from './seller-channel.ts'

/** A channel is claimed every 12 hours. */
const LATE_MS = 24 * 60 * 60_000
/** A claim for little waits until others make it worth its transaction. In atomic units. */
const WORTH = 10_000n

/** What people and metrics see of the channels to this seller. Amounts in atomic units. */
export type ChannelsSummary = {
  count: number
  /** How far the RPC lies behind the clock of this node, in ms. 0: as far as is in order. */
  lagMs: number
  /** What is charged and not claimed, in all and at the channel that owes most. */
  unclaimed: bigint
  unclaimedMost: bigint
  /** Withdrawals that payers have begun. `endsInMs`: by the time of the chain, and below 0 if one can end at any moment. */
  withdrawals: { id: Hex; amount: bigint; unclaimed: bigint; endsInMs: number }[]
  /** Charges that no escrow covers. */
  lost: { id: Hex; amount: bigint }[]
  /** Channels that owe for longer than two rounds of claims. */
  late: { count: number; amount: bigint; oldestMs: number } | undefined
  /** Why claims or settlements fail, and how often in a row. */
  failing: ChannelsSight['failing']
}

export function summarize({ channels, chainTimeMs, lagMs, failing }: ChannelsSight): ChannelsSummary {
  const owed = channels.map(({ channel }) => unclaimedOf(channel))
  return {
    ...{ count: channels.length, lagMs, failing, late: lateOf({ channels, chainTimeMs }) },
    unclaimed: owed.reduce((sum, amount) => sum + amount, 0n),
    unclaimedMost: largest(0n, ...owed),
    withdrawals: channels.flatMap(({ channel }) => {
      const { withdrawal } = channel.onChain
      if (withdrawal === undefined) return []
      const endsInMs = (withdrawal.initiatedAt + channel.config.withdrawDelay) * 1000 - chainTimeMs
      return { id: channel.id, amount: withdrawal.amount, unclaimed: unclaimedOf(channel), endsInMs }
    }),
    lost: channels.flatMap((one) => {
      const amount = lostOf(one)
      return amount > 0n ? { id: one.channel.id, amount } : []
    }),
  }
}

function lateOf({ channels, chainTimeMs }: Pick<ChannelsSight, 'channels' | 'chainTimeMs'>): ChannelsSummary['late'] {
  const late = channels.flatMap(({ channel, owedSince }) => {
    const owedMs = owedSince === undefined ? 0 : chainTimeMs - owedSince
    const amount = unclaimedOf(channel)
    return owedMs > LATE_MS && amount >= WORTH && claimOf(channel) !== undefined ? [{ owedMs, amount }] : []
  })
  if (late.length === 0) return undefined
  const amount = late.reduce((sum, one) => sum + one.amount, 0n)
  return { count: late.length, amount, oldestMs: Math.max(...late.map(({ owedMs }) => owedMs)) }
}
