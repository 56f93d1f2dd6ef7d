/** What people see of payment channels, in both roles. */
import { beforeEach, expect, test } from 'vitest'
import { type ChannelsApi, createChannelsApi } from '../../src/ledger/channels-api.ts'
import { ChannelRecord, ChannelSums } from '../../src/schema/channel-record.ts'
import { type BuyerChannels, createBuyerChannels } from '../../src/store/buyer-channels.ts'
import { createSellerChannelStore, type SellerChannelStore } from '../../src/store/seller-channels.ts'
import { channelsSince, payingChannelOf } from '../support/buyer-channels.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { randomHex, usdc } from '../support/payments.ts'
import { channelOf } from '../support/seller-channels.ts'

const LIMITS = { perPeerMax: 100, max: 100 }
let paying: BuyerChannels
let paid: SellerChannelStore
let api: ChannelsApi

const pay = async (changes: Parameters<typeof payingChannelOf>[0]) => {
  const channel = payingChannelOf(changes)
  expect(await paying.putDeposit(channel, () => true)).toBe(true)
  return channel
}
const sell = async (changes: Parameters<typeof channelOf>[0]) => {
  const channel = channelOf(changes)
  expect(await paid.add(channel, LIMITS)).toBe('added')
  return channel
}

onBothEngines((open) => {
  beforeEach(async () => {
    const database = await open()
    paying = createBuyerChannels(database)
    paid = createSellerChannelStore(database)
    api = createChannelsApi({
      ...{ network: usdc.network, paying, paid },
      namesOf: (agentId) => (agentId === 'a1' ? { name: 'Writer', seller_name: 'Ann' } : undefined),
      peerNames: (ids) => new Map([...ids].flatMap((id) => (id === 'bob' ? [[id, 'Bob']] : []))),
    })
  })

  test('a channel of a buyer shows what lies in it, what was signed, charged and claimed, and what is free', async () => {
    const onChain = { balance: 100_000n, totalClaimed: 5_000n, withdrawal: undefined, refundNonce: 0n }
    const early = new Map([[9, { amount: 1_000n, total: 10_000n, seq: 9, call: randomHex() }]])
    const { id } = await pay({ onChain, charged: 8_000n, seq: 7, early })
    const shown = await api.get(id)
    expect(ChannelRecord.parse(shown)).toEqual(shown)
    expect(shown).toMatchObject({
      ...{ id, role: 'buyer', state: 'open', peer_id: 'seller', calls: 7, calls_under_way: 1 },
      ...{ balance: '0.1', charged: '0.008', signed: '0.02', claimed: '0.005', unclaimed: '0.003', free: '0.091' },
      free_atomic: '91000',
    })
    expect(shown).not.toHaveProperty('withdrawal')
  })

  test('the other side and the agent have their names, where they are known', async () => {
    const named = await pay({ agentId: 'a1' })
    const unknown = await pay({ agentId: 'a2' })
    const sold = await sell({ peerId: 'bob' })
    const stranger = await sell({})
    const names = { peer_id: 'seller', peer_name: 'Ann', agent_id: 'a1', agent_name: 'Writer' }
    expect(await api.get(named.id)).toMatchObject(names)
    expect(await api.get(unknown.id)).toMatchObject({ agent_id: 'a2' })
    expect(await api.get(sold.id)).toMatchObject({ peer_id: 'bob', peer_name: 'Bob' })
    const { items } = await api.list({ limit: 10 })
    const shown = new Map(items.map(({ id, peer_name, agent_name }) => [id, [peer_name, agent_name]]))
    expect(shown.get(named.id)).toEqual(['Ann', 'Writer'])
    expect(shown.get(sold.id)).toEqual(['Bob', undefined])
    for (const { id } of [unknown, stranger]) expect(shown.get(id)).toEqual([undefined, undefined])
  })

  test('a withdrawal has its clock, in both roles, and what it takes out is not free', async () => {
    const initiatedAt = Date.UTC(2026, 0, 2) / 1000
    const onChain = {
      ...{ balance: 100_000n, totalClaimed: 0n, refundNonce: 0n },
      withdrawal: { amount: 70_000n, initiatedAt },
    }
    const bought = await pay({ onChain })
    const sold = await sell({ onChain, charged: 10_000n, owedSince: channelsSince })
    const withdrawal = {
      ...{ amount: '0.07', amount_atomic: '70000', started_at: '2026-01-02T00:00:00.000Z' },
      ends_at: '2026-01-02T00:15:00.000Z',
    }
    expect(await api.get(bought.id)).toMatchObject({ state: 'withdrawing', withdrawal, free: '0.03' })
    expect(await api.get(sold.id.toUpperCase().replace('0X', '0x'))).toMatchObject({
      ...{ role: 'seller', state: 'withdrawing', free: '0.02', unclaimed: '0.01', signed: '0' },
      withdrawal: { ...withdrawal, ends_at: '2026-01-03T00:00:00.000Z' },
      owed_since: '2026-01-01T12:00:00.000Z',
    })
  })

  test('a first deposit, a stop and an emptied channel each have a state', async () => {
    const nothing = { balance: 0n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n }
    const validBefore = BigInt(Date.UTC(2026, 0, 2) / 1000)
    const signed = { validAfter: 1n, salt: randomHex(), signature: randomHex(65), balanceBefore: 0n }
    const opening = await pay({ onChain: nothing, deposit: { amount: 50_000n, validBefore, ...signed } })
    expect(await api.get(opening.id)).toMatchObject({
      state: 'opening',
      deposit: { amount: '0.05', valid_before: '2026-01-02T00:00:00.000Z' },
    })
    const stopped = await pay({ stopped: 'a false sum' })
    expect(await api.get(stopped.id)).toMatchObject({ state: 'stopped', stopped: 'a false sum', free: '0' })
    const spent = await sell({ onChain: { ...nothing, balance: 9n, totalClaimed: 9n }, charged: 9n })
    expect(await api.get(spent.id)).toMatchObject({ state: 'empty', free: '0', unclaimed: '0' })
    await expect(api.get(randomHex())).rejects.toMatchObject({ code: 'UNKNOWN_CHANNEL' })
  })

  test('sums are of the own network: what is locked, reserved and charged, and what buyers have deposited', async () => {
    const onChain = { balance: 100_000n, totalClaimed: 5_000n, withdrawal: undefined, refundNonce: 0n }
    const withdrawal = { amount: 1n, initiatedAt: 1 }
    const signed = { validAfter: 1n, validBefore: 9n, salt: randomHex(), signature: randomHex(65), balanceBefore: 0n }
    await pay({ onChain, mark: 20_000n, charged: 8_000n, deposit: { amount: 50_000n, ...signed } })
    await pay({ onChain: { ...onChain, withdrawal }, mark: 100_000n, charged: 100_000n, stopped: 'why' })
    await pay({ onChain, mark: 9_000n, charged: 8_000n, stopped: 'why', network: 'eip155:8453' })
    await sell({ onChain, charged: 7_000n })
    await sell({ onChain: { ...onChain, withdrawal }, charged: 6_000n })
    await sell({ onChain, charged: 6_000n, network: 'eip155:8453' })
    const sums = await api.sums()
    expect(ChannelSums.parse(sums)).toEqual(sums)
    expect(sums).toMatchObject({
      paying: { channels: 2, locked: '0.142', reserved: '0.012', charged: '0.108', withdrawing: 1, stopped: 0 },
      paid: {
        channels: 2,
        deposited: '0.19',
        charged: '0.013',
        unclaimed: '0.003',
        unclaimed_atomic: '3000',
        withdrawing: 1,
      },
    })
  })

  test('pages join both roles, newest first, and miss none where times are equal', async () => {
    const ids: string[] = []
    for (const createdAt of [1, 2, 2, 2, 3]) {
      ids.push((await pay({ createdAt })).id, (await sell({ createdAt })).id)
    }
    const read: string[] = []
    let cursor: string | undefined
    do {
      const page = await api.list({ limit: 3, cursor })
      expect(page.items.length).toBeLessThanOrEqual(3)
      read.push(...page.items.map(({ id }) => id))
      cursor = page.next
    } while (cursor !== undefined)
    expect([...read].sort()).toEqual([...ids].sort())
    expect(new Set(read.slice(0, 2))).toEqual(new Set(ids.slice(8)))
    const bought = await api.list({ role: 'buyer', limit: 10 })
    expect(bought.items.map(({ role }) => role)).toEqual(Array(5).fill('buyer'))
    expect(bought.next).toBeUndefined()
  })
})
