import { expect, test } from 'vitest'
import type { ChannelRecord, ChannelSums, RecoveredChannels } from '../../src/schema/channel-record.ts'
import { HandClock } from '../support/hand-clock.ts'
import { address, cli, listing, peerId, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const NOW = Date.UTC(2026, 0, 2)
const id: `0x${string}` = `0x${'ab'.repeat(32)}`

const channel: ChannelRecord = {
  ...{ id, role: 'buyer', state: 'open', peer_id: peerId, peer_name: 'Ann', payer: address, receiver: address },
  ...{ network: 'eip155:84532', asset: address, calls: 12, calls_under_way: 2, withdraw_delay_seconds: 86_400 },
  ...{ balance: '0.1', balance_atomic: '100000', charged: '0.012', charged_atomic: '12000' },
  ...{ signed: '0.02', signed_atomic: '20000', claimed: '0.01', claimed_atomic: '10000' },
  ...{ unclaimed: '0.002', unclaimed_atomic: '2000', free: '0.086', free_atomic: '86000' },
  ...{ agent_id: 'a1', agent_name: 'Writer' },
  ...{ created_at: '2026-01-01T00:00:00.000Z', used_at: '2026-01-01T23:55:00.000Z' },
}
const leaving: ChannelRecord = {
  ...channel,
  ...{ peer_name: undefined, agent_id: undefined, agent_name: undefined },
  ...{ id: `0x${'cd'.repeat(32)}`, role: 'seller', state: 'withdrawing', owed_since: '2026-01-01T20:00:00.000Z' },
  withdrawal: {
    ...{ amount: '0.05', amount_atomic: '50000' },
    ...{ started_at: '2026-01-01T23:00:00.000Z', ends_at: '2026-01-02T23:00:00.000Z' },
  },
}

const nothing: RecoveredChannels = { recovered: [], known: 0, empty: 0, older: [], whole: true }

async function run(argv: string[], channels: ChannelRecord[] = [channel, leaving], found = nothing) {
  const asked: unknown[] = []
  const { parts } = await runningNode(dataDir(), {
    channels: async (query) => {
      asked.push(query)
      return { items: channels, next: '7.0x' }
    },
    channel: async (wanted) => channels.find((one) => one.id === wanted)!,
    recoverChannels: async (days) => {
      asked.push(days)
      return found
    },
  })
  return { ...(await cli(argv, { dataDir: dataDir(), parts: { ...parts, clock: new HandClock(NOW) } })), asked }
}

test('stoa channel list shows what lies in each channel, what is free, and the clock of a withdrawal', async () => {
  const { stdout, stderr, asked } = await run(['channel', 'list', '--role', 'buyer', '--limit', '2'])
  expect(asked).toEqual([{ role: 'buyer', limit: 2 }])
  const [head, first, second] = stdout.split('\n')
  expect(head).toMatch(/^ROLE +WITH +STATE +BALANCE +CHARGED +UNCLAIMED +FREE +CALLS +USED +CHANNEL/)
  expect(first).toMatch(/^buyer +Ann +open +0\.1 USDC +0\.012 USDC +0\.002 USDC +0\.086 USDC +12 +5 min +0xabab/)
  expect(second).toMatch(/^seller +…[^ ]{8} +withdrawing \(ends in 23 h\) /)
  expect(stderr).toContain('stoa channel list --cursor 7.0x')
})

test('a channel is with a seller: the agent that it was opened for stands for none without a name', async () => {
  const { stdout } = await run(['channel', 'list'], [{ ...channel, peer_name: undefined }])
  expect(stdout).toMatch(/^buyer +seller of Writer +open /m)
})

test('stoa channel show takes the start of an id, and says what each amount means', async () => {
  const { stdout } = await run(['channel', 'show', '0xabababab'])
  expect(stdout).toMatch(/^charged +0\.012 USDC in 12 calls$/m)
  expect(stdout).toMatch(/^signed +0\.02 USDC: the seller can claim no more$/m)
  expect(stdout).toMatch(/^under way +2 calls$/m)
  expect(stdout).toMatch(new RegExp(`^seller +Ann \\(${peerId}\\)$`, 'm'))
  expect(stdout).toMatch(/^opened for +Writer$/m)
  expect(stdout).not.toMatch(/withdrawal/)
  const seller = await run(['channel', 'show', leaving.id])
  expect(seller.stdout).toMatch(/^withdrawal +0\.05 USDC, from 2026-01-02T23:00:00\.000Z on$/m)
  expect(seller.stdout).toMatch(/^unclaimed +0\.002 USDC, for 4 h$/m)
  expect(JSON.parse((await run(['channel', 'show', id, '--json'])).stdout)).toEqual(channel)
})

test('a withdrawal whose delay is over says that it can end now', async () => {
  const over = { ...leaving, withdrawal: { ...leaving.withdrawal!, ends_at: '2026-01-01T23:59:59.000Z' } }
  expect((await run(['channel', 'list'], [over])).stdout).toMatch(/withdrawing \(can end now\)/)
})

test('stoa status tells what is locked and not claimed, if there are channels', async () => {
  const amounts = { charged: '0.1', charged_atomic: '100000' }
  const paying = {
    ...{ channels: 1, locked: '0.097', locked_atomic: '97000', reserved: '0.01', reserved_atomic: '10000', ...amounts },
    ...{ withdrawing: 1, stopped: 0 },
  }
  const paid = {
    ...{ channels: 2, deposited: '0.2', deposited_atomic: '200000', unclaimed: '0.003', unclaimed_atomic: '3000' },
    ...{ ...amounts, withdrawing: 0 },
  }
  const said = async (sums: ChannelSums) => {
    const { parts } = await runningNode(dataDir(), { channelSums: async () => sums })
    return (await cli(['status'], { dataDir: dataDir(), parts })).stdout
  }
  expect(await said({ paying, paid })).toMatch(
    /^Channels +0\.097 USDC locked in 1 channel, 1 with a withdrawal; 0\.003 USDC not claimed in 2 channels of buyers$/m,
  )
  expect(await said({ paying: { ...paying, channels: 0 }, paid: { ...paid, channels: 0 } })).not.toMatch(/Channels/)
})

test('text that is no id, or the start of none, is refused with what to do', async () => {
  expect(await run(['channel', 'show', 'mine'])).toMatchObject({ code: 2, stderr: expect.stringMatching(/0x and 64/) })
  const unknown = await run(['channel', 'show', '0x123456'])
  expect(unknown).toMatchObject({ code: 3, stderr: expect.stringContaining('stoa channel list --json') })
})

test('stoa channel open, close and withdraw act on the running node, and show what the channel is then', async () => {
  const asked: unknown[] = []
  const left: ChannelRecord = {
    ...channel,
    state: 'leaving',
    leaving: { why: 'asked', way: 'refund', since: '2026-01-02T00:00:00.000Z', trouble: 'the seller is away' },
  }
  const { parts } = await runningNode(dataDir(), {
    agent: async (name) => listing({ id: `id-of-${name}` }),
    openChannel: async (body) => {
      asked.push(body)
      return { ...channel, state: 'opening' }
    },
    leaveChannel: async (wanted, how) => {
      asked.push([wanted, how])
      return left
    },
  })
  const options = { dataDir: dataDir(), parts: { ...parts, clock: new HandClock(NOW) } }
  expect((await cli(['channel', 'open', 'Writer', '--deposit', '0.5'], options)).stdout).toMatch(/^state +opening$/m)
  const closed = await cli(['channel', 'close', id], options)
  expect(closed.stdout).toMatch(/^left since +2026-01-02T00:00:00\.000Z: you asked for it$/m)
  expect(closed.stdout).toMatch(/^trouble +the seller is away$/m)
  await cli(['channel', 'withdraw', id], options)
  expect(asked).toEqual([{ agent_id: 'id-of-Writer', deposit: '0.5' }, [id, 'close'], [id, 'withdraw']])
})

test('stoa channel recover says what the chain shows, and what to do about the rest', async () => {
  const none = await run(['channel', 'recover'])
  expect(none.asked).toEqual([30])
  expect(none.stdout).toBe('no channel of this wallet is missing in the ledger: 0 with money are known, 0 are empty\n')
  const older: `0x${string}`[] = [`0x${'ef'.repeat(32)}`]
  const { stdout, stderr, asked } = await run(['channel', 'recover', '--days', '90'], undefined, {
    ...{ recovered: [channel], known: 2, empty: 1, older, whole: false },
  })
  expect(asked).toEqual([90])
  expect(stdout).toContain(channel.id)
  expect(stderr).toContain('the money of 1 channel is taken out')
  expect(stderr).toContain('1 channel was opened before these days: give a larger number with --days (up to 365)')
  expect(stderr).toContain('the RPC did not show all of these days')
  await expect(run(['channel', 'recover', '--days', '0'])).resolves.toMatchObject({ code: 2 })
})
