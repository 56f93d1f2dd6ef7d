import { expect, test } from 'vitest'
import { payingChannelOf } from '../../test/support/buyer-channels.ts'
import { createConfig } from '../config/config.ts'
import type { Settings } from '../config/settings.ts'
import { paidSums, payingSums } from '../ledger/channel-sums.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import type { ChannelSums } from '../schema/channel-record.ts'
import { checkChannels } from './channel-checks.ts'

const none: ChannelSums = { paying: payingSums([]), paid: paidSums([]) }
const one: ChannelSums = {
  paying: payingSums([payingChannelOf({ charged: 3_000n })]),
  paid: paidSums([{ balance: 9n, totalClaimed: 0n, charged: 5n, isWithdrawing: false }]),
}

const priced = { price: 1_000n }
type Said = {
  agents?: { price: bigint; on_channels_only?: true }[]
  hasRpc?: boolean
  sums?: ChannelSums
  trouble?: string | undefined
  alarms?: Partial<AlarmRecord>[]
}
const found = (
  settings: Partial<Settings>,
  { hasRpc = true, sums = none, trouble, alarms = [], agents = [priced] }: Said = {},
) =>
  checkChannels(
    {
      config: { ...createConfig({ ...settings, dataDir: '/data' }), rpcUrl: hasRpc ? 'http://127.0.0.1:1' : undefined },
      agents: () => agents,
      channelTrouble: hasRpc ? async () => trouble : undefined,
      channelSums: async () => sums,
      alarms: { list: async () => alarms as AlarmRecord[] },
    },
    AbortSignal.timeout(1_000),
  )
const off = { channels: 'off', sellerChannels: 'off' } as const
const both = { channels: 'auto', sellerChannels: 'auto' } as const

test('a node that neither offers nor opens channels, and has none, is not checked', async () => {
  expect(await found(off, { trouble: 'no contract' })).toMatchObject({ state: 'skip' })
})

test('a seller that offers none is told why; it is a fault where agents or charges need channels', async () => {
  const trouble = 'Base has no contract for payment channels at 0x40…'
  expect(await found({}, { trouble })).toMatchObject([{ state: 'skip', text: trouble }])
  const only = [priced, { ...priced, on_channels_only: true as const }]
  expect(await found({}, { trouble, agents: only })).toMatchObject([{ state: 'fail', text: trouble }])
  // Channels that it has must be settled, although it takes no new ones.
  expect(await found(off, { trouble, sums: one })).toMatchObject([{ state: 'fail', text: trouble }])
})

test('a node that only buys, or gives its agents away, does not need what a seller needs', async () => {
  const trouble = 'the wallet has too little ETH'
  expect(await found({}, { trouble, agents: [] })).toMatchObject({ state: 'ok', text: 'none yet' })
  expect(await found({}, { trouble, agents: [{ price: 0n }] })).toMatchObject({ state: 'ok', text: 'none yet' })
  expect(await found({ sellerChannels: 'off' }, { trouble })).toMatchObject({ state: 'ok', text: 'none yet' })
})

test('without an RPC a node is told that it opens and offers none', async () => {
  const without = await found(both, { hasRpc: false })
  expect(without).toMatchObject([
    { state: 'warn', text: 'without an RPC endpoint this node offers none and opens none' },
  ])
  expect(await found(off, { hasRpc: false })).toMatchObject({ state: 'skip' })
})

test('what lies in the channels is told, and alarms about them with how to end them', async () => {
  const text = '1 channel to sellers with 0.097 USDC, 1 channel of buyers that owe 0.000005 USDC'
  expect(await found(both, { sums: one })).toMatchObject({ state: 'ok', text })
  const alarms: Partial<AlarmRecord>[] = [
    { id: 'channel_stopped', kind: 'channel_stopped', title: 'It signs no more', text: 'Why.', amount: '0.1' },
    { id: 'no_peers', kind: 'no_peers', title: 'Alone', text: 'Why.' },
  ]
  expect(await found(both, { sums: one, alarms })).toMatchObject([
    {
      state: 'warn',
      text: 'It signs no more, 0.1 USDC. Why.',
      fix: expect.stringContaining('dismiss channel_stopped'),
    },
  ])
})
