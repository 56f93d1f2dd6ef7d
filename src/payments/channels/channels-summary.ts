import { largest } from '../../lib/bigints.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelsSight } from './channel-keeper.ts'
import { lostOf } from './channel-readings.ts'
import { unclaimedOf } from './seller-channel.ts'

/** What people and metrics see of the channels to this seller. Amounts in atomic units. */
export type ChannelsSummary = {
  count: number
  /** What is charged and not claimed, in all and at the channel that owes most. */
  unclaimed: bigint
  unclaimedMost: bigint
  /** Withdrawals that payers have begun. `endsInMs`: by the time of the chain, and below 0 if one can end at any moment. */
  withdrawals: { id: Hex; amount: bigint; unclaimed: bigint; endsInMs: number }[]
  /** Charges that no escrow covers any more. */
  lost: { id: Hex; amount: bigint }[]
  /** Why claims or settlements fail, and how often in a row. */
  failing: ChannelsSight['failing']
}

export function summarize({ channels, chainTimeMs, failing }: ChannelsSight): ChannelsSummary {
  const owed = channels.map(({ channel }) => unclaimedOf(channel))
  return {
    ...{ count: channels.length, failing },
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
