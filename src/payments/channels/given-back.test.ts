import { expect, test } from 'vitest'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { silentLogger } from '../../lib/logger.ts'
import type { Hex } from '../../schema/primitives.ts'
import { GivenBack } from './given-back.ts'
import type { KeptChannel } from './kept-channels.ts'
import type { SellerChannel } from './seller-channel.ts'

const NOW = 1_800_000_000_000
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
const never = new AbortController().signal
const onChain = { balance: 200_000n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 3n }

function kept(id: string, unusedMs: number, more: Partial<SellerChannel> & { isOwn?: boolean } = {}): KeptChannel {
  const { isOwn = true, ...sums } = more
  const channel = { id, onChain, charged: 2_000n, asked: 0n, seq: 1, best: undefined, ...sums } as SellerChannel
  return { channel, isOwn, owedSince: undefined, usedAt: NOW - unusedMs }
}

function start() {
  const clock = new HandClock(NOW)
  const asked: string[] = []
  const refund = async (id: Hex) => {
    asked.push(id)
    return { kind: 'pending' as const, reason: 'the chain is away' }
  }
  const givenBack = new GivenBack({ clock, logger: silentLogger, refunds: { refund } })
  const turn = async (...channels: KeptChannel[]) => {
    await givenBack.turn(channels, never)
    return asked.splice(0)
  }
  return { clock, turn }
}
const signed = { refund: { nonce: 3n, amount: 198_000n } }

test('a refund that was signed and did not happen is sent again, and one that has just been signed is left alone', async () => {
  const { turn } = start()
  const done = { refund: { nonce: 2n, amount: 1_000n } }
  const found = await turn(
    kept('left', 3 * MINUTE_MS, signed),
    kept('under way', MINUTE_MS, signed),
    kept('done', DAY_MS, done),
    kept('in use', DAY_MS),
  )
  expect(found).toEqual(['left'])
})

test('a channel that lies idle for a month is given back, also after a restart', async () => {
  const { turn } = start()
  const found = await turn(
    kept('idle', 31 * DAY_MS, { isOwn: false }),
    kept('little', 31 * DAY_MS, { charged: 150_000n }),
    kept('used', 29 * DAY_MS),
  )
  expect(found).toEqual(['idle'])
})

test('one that cannot be given back is tried again later, and keeps no other one waiting', async () => {
  const { turn, clock } = start()
  const stuck = Array.from({ length: 6 }, (_, index) => kept(`stuck ${index}`, DAY_MS, signed))
  expect(await turn(...stuck)).toEqual(['stuck 0', 'stuck 1', 'stuck 2', 'stuck 3', 'stuck 4'])
  expect(await turn(...stuck)).toEqual(['stuck 5'])
  expect(await turn(...stuck)).toEqual([])
  clock.advance(10 * MINUTE_MS)
  expect(await turn(...stuck)).toHaveLength(5)
})
