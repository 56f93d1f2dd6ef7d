import type { ChannelsSummary } from '../../payments/channels/channels-summary.ts'
import type { ChannelSums } from '../../schema/channel-record.ts'
import { type Family, gauge, type Value } from './metric-family.ts'

const usdc = (atomic: bigint) => Number(atomic) / 1e6

/** No label names a channel: a seller may have thousands, and `stoa channel list` shows each. */
function ofChannels(name: string, help: string, read: (summary: ChannelsSummary) => Value[]): Family {
  return gauge(name, help, ({ channels }) => {
    const summary = channels()
    return summary === undefined ? [] : read(summary)
  })
}

/** A node that pays by no channel has no such values. */
function ofPaying(name: string, help: string, read: (sums: ChannelSums['paying']) => Value[]): Family {
  return gauge(name, help, async ({ channelSums }) => {
    const { paying } = await channelSums()
    return paying.channels === 0 ? [] : read(paying)
  })
}

/** Metrics of the payment channels to this node, as this process last read them on the chain, and of those by which it pays. */
export const channelFamilies: readonly Family[] = [
  ofChannels('stoa_channels', 'Payment channels to this node.', ({ count }) => [{ value: count }]),
  ofChannels(
    'stoa_channel_unclaimed_usdc',
    'What payment channels owe and the chain does not have yet: all together, and the one that owes most.',
    ({ unclaimed, unclaimedMost }) => [
      { labels: { of: 'all' }, value: usdc(unclaimed) },
      { labels: { of: 'most' }, value: usdc(unclaimedMost) },
    ],
  ),
  ofChannels('stoa_channel_withdrawals', 'Payment channels whose payer takes money out.', ({ withdrawals }) => [
    { value: withdrawals.length },
  ]),
  ofChannels('stoa_channel_lost_usdc', 'Charges on payment channels that no deposit covers any more.', ({ lost }) => [
    { value: usdc(lost.reduce((sum, { amount }) => sum + amount, 0n)) },
  ]),
  ofChannels(
    'stoa_channel_claim_failures',
    'Claims or settlements of payment channels that failed in a row.',
    ({ failing }) => [{ value: failing?.count ?? 0 }],
  ),
  ofChannels(
    'stoa_channel_chain_lag_seconds',
    'How far the newest block that the RPC shows lies behind the clock of the node, if it is too far: then no call on a channel is taken. Else 0.',
    ({ lagMs }) => [{ value: lagMs / 1000 }],
  ),
  ofPaying(
    'stoa_channels_paying',
    'Payment channels by which this node pays: all, those with a withdrawal, and those that have stopped with money in them.',
    ({ channels, withdrawing, stopped }) => [
      { labels: { state: 'all' }, value: channels },
      { labels: { state: 'withdrawing' }, value: withdrawing },
      { labels: { state: 'stopped' }, value: stopped },
    ],
  ),
  ofPaying(
    'stoa_channel_paying_usdc',
    'What this node has in payment channels: locked (not spent), reserved of it (signed and not charged), and charged so far.',
    ({ locked, reserved, charged }) => [
      { labels: { of: 'locked' }, value: Number(locked) },
      { labels: { of: 'reserved' }, value: Number(reserved) },
      { labels: { of: 'charged' }, value: Number(charged) },
    ],
  ),
]
