import { expect, test } from 'vitest'
import { channelsSince, payingChannelOf } from '../../test/support/buyer-channels.ts'
import { exitAlarms } from './exit-alarms.ts'

const NOW = channelsSince + 60_000
const leaving = { why: 'asked', way: 'refund', since: channelsSince } as const

test('a channel that pays calls, one that is left without trouble, and one that is closed are no alarm', () => {
  expect(exitAlarms([payingChannelOf()], NOW)).toEqual([])
  expect(exitAlarms([payingChannelOf({ leaving })], NOW)).toEqual([])
  const trouble = { step: 'withdrawal', reason: 'no ETH', count: 9 } as const
  expect(exitAlarms([payingChannelOf({ leaving: { ...leaving, trouble }, closedAt: NOW })], NOW)).toEqual([])
})

test('a channel that has stopped says why, also for some days after its money is back', () => {
  const stopped = 'the seller states a sum of 9 where its charges make 8'
  const [alarm, ...others] = exitAlarms([payingChannelOf({ stopped, leaving, closedAt: NOW - 1 })], NOW)
  expect(others).toEqual([])
  expect(alarm).toMatchObject({ kind: 'channel_stopped', severity: 'bad', count: 1 })
  expect(alarm!.text).toMatch(/^The seller states a sum of 9 where its charges make 8\. /)
  expect(exitAlarms([payingChannelOf({ stopped, leaving, closedAt: NOW - 8 * 86_400_000 })], NOW)).toEqual([])
})

test('a withdrawal has its clock, and says why the seller was not enough', () => {
  const withdrawal = { amount: 500_000n, initiatedAt: channelsSince / 1000 }
  const channel = payingChannelOf()
  const reason = 'the seller gives no refund: it is gone'
  const left = { ...leaving, trouble: { step: 'refund', reason, count: 3 } as const }
  const [alarm] = exitAlarms([{ ...channel, leaving: left, onChain: { ...channel.onChain, withdrawal } }], NOW)
  expect(alarm).toMatchObject({ kind: 'channel_exit_pending', severity: 'warn', amount: '0.5' })
  const minutes = channel.config.withdrawDelay / 60 - 1
  expect(alarm!.text).toContain(
    `The seller gives no refund: it is gone. The first withdrawal can end in ${minutes} min`,
  )
})

test('a withdrawal that fails twice needs a person, and so does a deposit that does not arrive', () => {
  const reason = 'the wallet 0x1 has 0 ETH on eip155:84532: send it some'
  const failing = (count: number) =>
    exitAlarms([payingChannelOf({ leaving: { ...leaving, trouble: { step: 'withdrawal', reason, count } } })], NOW)
  expect(failing(1)).toEqual([])
  expect(failing(2)).toMatchObject([{ kind: 'channel_exit_failing', text: expect.stringContaining('send it some') }])
  const signedAt = BigInt(channelsSince / 1000)
  const id: `0x${string}` = `0x${'1'.repeat(64)}`
  const terms = { amount: 100_000n, validAfter: 0n, salt: id, signature: id, balanceBefore: 0n }
  const deposit = { ...terms, validBefore: signedAt + 600n }
  expect(exitAlarms([payingChannelOf({ deposit })], NOW)).toEqual([])
  expect(exitAlarms([payingChannelOf({ deposit })], channelsSince + 200_000)).toMatchObject([
    { kind: 'channel_deposit_pending', amount: '0.1' },
  ])
})
