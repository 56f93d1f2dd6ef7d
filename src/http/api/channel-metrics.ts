import type { ChannelsSummary } from '../../payments/channels/channels-summary.ts'
import { type Family, gauge, type Value } from './metric-family.ts'

const usdc = (atomic: bigint) => Number(atomic) / 1e6

/** No label names a channel: a seller may have thousands, and `stoa channel list` shows each. */
function ofChannels(name: string, help: string, read: (summary: ChannelsSummary) => Value[]): Family {
  return gauge(name, help, ({ channels }) => {
    const summary = channels()
    return summary === undefined ? [] : read(summary)
  })
}

/** Metrics of the payment channels to this node, as this process last read them on the chain. */
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
]
