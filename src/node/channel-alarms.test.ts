import { expect, test } from 'vitest'
import { summarize } from '../payments/channels/channels-summary.ts'
import type { KeptChannel } from '../payments/channels/kept-channels.ts'
import type { Hex } from '../schema/primitives.ts'
import { channelAlarms } from './channel-alarms.ts'

const account = (digit: string): Hex => `0x${digit.repeat(40)}`
const START = 1_800_000_000

function channelWith(charged: bigint, onChain: Partial<KeptChannel['channel']['onChain']>): KeptChannel {
  const id: Hex = `0x${charged.toString(16).padStart(64, '0')}`
  const config = {
    ...{ payer: account('1'), payerAuthorizer: account('2'), receiver: account('3'), receiverAuthorizer: account('4') },
    ...{ token: account('5'), withdrawDelay: 3_600, salt: id },
  }
  const state = { balance: 1_000_000n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n, ...onChain }
  const channel = { id, config, onChain: state, best: undefined, charged, seq: 1, asked: 0n }
  return { channel, isOwn: true, owedSince: undefined, usedAt: 0 }
}

const alarmsOf = (channels: KeptChannel[], failing?: { count: number; reason: string }, lagMs = 0) =>
  channelAlarms(summarize({ channels, chainTimeMs: (START + 600) * 1000, lagMs, failing }))

test('a withdrawal from a channel that owes something is an alarm with its clock, by the time of the chain', () => {
  const withdrawal = { amount: 500_000n, initiatedAt: START }
  const [alarm, ...others] = alarmsOf([
    channelWith(200_000n, { withdrawal }),
    channelWith(300_000n, { withdrawal, totalClaimed: 300_000n }),
    channelWith(400_000n, {}),
  ])
  expect(others).toEqual([])
  expect(alarm).toMatchObject({ kind: 'channel_withdrawal', severity: 'bad', count: 1, amount: '0.2' })
  expect(alarm!.text).toMatch(/^The first withdrawal can end in 50 min\./)
  const late = { amount: 1n, initiatedAt: START - 3_600 }
  expect(alarmsOf([channelWith(1n, { withdrawal: late })])[0]!.text).toMatch(
    /^The first withdrawal can end at any moment/,
  )
})

test('charges that nobody has claimed for a day are an alarm, unless a claim is known to fail or they are small', () => {
  const best = { channelId: `0x${'0'.repeat(64)}` as Hex, maxClaimableAmount: 10_000_000n, signature: '0x' as Hex }
  const owing = (charged: bigint, hours: number): KeptChannel => {
    const kept = channelWith(charged, {})
    const owedSince = (START + 600) * 1000 - hours * 3_600_000
    return { ...kept, channel: { ...kept.channel, best }, owedSince }
  }
  expect(alarmsOf([owing(300_000n, 23), owing(9_000n, 90)])).toEqual([])
  const late = [owing(300_000n, 25), owing(200_000n, 60)]
  expect(alarmsOf(late)).toMatchObject([
    { kind: 'channel_claim_late', severity: 'warn', count: 2, amount: '0.5', text: expect.stringContaining('60 h') },
  ])
  expect(alarmsOf(late, { count: 2, reason: 'no gas' }).map(({ kind }) => kind)).toEqual(['channel_claim_failing'])
})

test('hazard 4.3: an RPC that shows an old block is an alarm, because it hides withdrawals', () => {
  expect(alarmsOf([channelWith(300_000n, {})], undefined, 11 * 60_000)).toMatchObject([
    { kind: 'channel_chain_behind', severity: 'bad', amount: '0.3', text: expect.stringContaining('is 11 min old') },
  ])
})

test('charges without escrow are lost, and a claim that fails twice needs a person', () => {
  expect(alarmsOf([channelWith(1_200_000n, { totalClaimed: 1_000_000n })])).toMatchObject([
    { kind: 'channel_lost', count: 1, amount: '0.2' },
  ])
  const owing = channelWith(300_000n, {})
  expect(alarmsOf([owing], { count: 1, reason: 'no gas' })).toEqual([])
  expect(alarmsOf([owing], { count: 2, reason: 'no gas' })).toMatchObject([
    { kind: 'channel_claim_failing', amount: '0.3', text: expect.stringContaining('no gas') },
  ])
})
