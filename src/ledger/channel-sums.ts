import { largest, smallest } from '../lib/bigints.ts'
import { heldIn } from '../payments/channels/moved.ts'
import { formatPrice } from '../schema/amount.ts'
import type { ChannelSums } from '../schema/channel-record.ts'
import type { StoredChannel } from '../store/buyer-channels.ts'
import type { ChannelAmounts } from '../store/seller-channels.ts'

/** What this node has in channels to sellers. */
export function payingSums(channels: readonly StoredChannel[]): ChannelSums['paying'] {
  const sum = (read: (channel: StoredChannel) => bigint) => channels.reduce((total, one) => total + read(one), 0n)
  const left = (channel: StoredChannel) => largest(heldIn(channel) - channel.charged, 0n)
  const locked = (channel: StoredChannel) => left(channel) + (channel.deposit?.amount ?? 0n)
  const money = {
    locked: sum(locked),
    // A voucher takes no more than what lies there: nothing, once the channel was emptied.
    reserved: sum((channel) => smallest(largest(channel.mark - channel.charged, 0n), locked(channel))),
    charged: sum(({ charged }) => charged),
  }
  return {
    channels: channels.length,
    ...amounts(money),
    withdrawing: channels.filter(({ onChain }) => onChain.withdrawal !== undefined).length,
    stopped: channels.filter((channel) => channel.stopped !== undefined && left(channel) > 0n).length,
  }
}

/** What buyers have in channels to this node. */
export function paidSums(channels: readonly ChannelAmounts[]): ChannelSums['paid'] {
  const sum = (read: (channel: ChannelAmounts) => bigint) => channels.reduce((total, one) => total + read(one), 0n)
  const money = {
    deposited: sum(({ balance, totalClaimed }) => largest(balance - totalClaimed, 0n)),
    charged: sum(({ charged }) => charged),
    unclaimed: sum(({ charged, totalClaimed }) => largest(charged - totalClaimed, 0n)),
  }
  const withdrawing = channels.filter(({ isWithdrawing }) => isWithdrawing).length
  return { channels: channels.length, ...amounts(money), withdrawing }
}

function amounts<const Name extends string>(sums: Record<Name, bigint>) {
  const both = Object.entries<bigint>(sums).flatMap(([name, amount]) => [
    [name, formatPrice(amount)],
    [`${name}_atomic`, amount.toString()],
  ])
  return Object.fromEntries(both) as { [K in Name | `${Name}_atomic`]: string }
}
