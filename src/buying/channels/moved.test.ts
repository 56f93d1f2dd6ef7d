/** T15: an RPC that goes on showing less in a channel than lies in it must not lead to more deposits than the operator allows. */
import { expect, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { scriptedMarket } from '../../../test/support/scripted-market.ts'
import { until } from '../../../test/support/until.ts'
import type { ChannelState } from '../../chain/batch-settlement.ts'
import type { Hex } from '../../schema/primitives.ts'
import { isEmpty } from './channel-operations.ts'

/** The first deposit is as much as the market of these tests allows at one seller. */
const PRICE = 50_000n
const MOST = 1_000_000n
const AGAIN_MS = 11 * 60_000
const DAY_MS = 24 * 60 * 60_000

async function marketOf(lie: (truth: ChannelState) => ChannelState) {
  const seller = new ChannelScript(PRICE)
  let lies = false
  let takenOut = 0n
  let isWhole = true
  let isUsed = true
  let looks = 0
  const reader = {
    channels: async (ids: readonly Hex[]) => {
      const states = await seller.reader.channels(ids)
      return lies ? states.map(lie) : states
    },
    takenOut: async () => ({ amount: takenOut, isWhole }),
    async authorizationAt() {
      looks++
      const use = isUsed ? { state: 'used' as const, txHash: undefined } : { state: 'unused' as const }
      return { use, timeMs: market.buyer.clock.now() }
    },
  }
  const market = await scriptedMarket({ open: seller.open, reader }, { price: PRICE })
  const { buyer, line, store } = market
  await buyer.execute({ channel: 'always' }).catch(() => {})
  await until(async () => (await store.list()).some(({ onChain }) => onChain.balance === MOST))
  /** All deposits that were signed and sent, each once. */
  const deposits = () => {
    const sent = seller.requests.flatMap(({ payment }) => payment?.channel?.deposit ?? [])
    const amounts = new Map(sent.map(({ amount, authorization }) => [authorization.salt, amount]))
    return [...amounts.values()].reduce((sum, amount) => sum + amount, 0n)
  }
  const failure = () =>
    market.channels.failure({ seller: { peerId: 'seller', addrs: [] }, listed: { amount: 1_000_000n } } as never)
  /** The channels are read once a minute. */
  const readAgain = async (balance: bigint) => {
    buyer.clock.advance(AGAIN_MS)
    await until(async () => (await line()).channel.onChain.balance === balance)
  }
  return {
    ...{ ...market, seller, deposits, failure, readAgain },
    lie() {
      lies = true
    },
    /** What the log of the chain shows from now on. */
    log(amount: bigint, whole = true) {
      takenOut = amount
      isWhole = whole
    },
    /** Until USDC was asked once more whether the deposit has happened. */
    async askedAgain(): Promise<void> {
      const before = looks
      buyer.clock.advance(DAY_MS)
      await until(() => looks > before)
    },
    /** USDC has not seen the deposit. */
    undo() {
      isUsed = false
    },
    async close(): Promise<void> {
      await market.channels.exits!.leave((await line()).id, { why: 'asked', way: 'withdraw' })
    },
    /** Asks for a channel. Resolves when a deposit was sent, or when it was said that none is made. */
    async wanted(): Promise<void> {
      const before = deposits()
      await buyer.execute({ channel: 'always' }).catch(() => {})
      await until(() => failure() !== undefined || deposits() > before)
    },
  }
}

const empty = (truth: ChannelState): ChannelState => ({ ...truth, balance: 0n, totalClaimed: 0n })

test('a channel that the RPC shows as empty still counts with what was put in', async () => {
  const market = await marketOf(empty)
  expect(market.deposits()).toBe(MOST)
  market.lie()
  await market.readAgain(0n)
  await market.wanted()
  expect(market.deposits()).toBe(MOST)
  expect(market.failure()).toMatch(/hold 1 USDC and buyer.channel_deposit_max is 1 USDC/)
})

test('an RPC that hides for days what lies in a channel, and its log, leads to no second deposit', async () => {
  const market = await marketOf(empty)
  market.lie()
  for (let day = 1; day <= 3; day++) {
    await market.askedAgain()
    await market.wanted()
  }
  expect([market.deposits(), (await market.stored()).moved.in]).toEqual([MOST, MOST])
})

test('a deposit that a reorganization took back counts until it can never happen again', async () => {
  const market = await marketOf(empty)
  market.lie()
  market.undo()
  await market.readAgain(0n)
  // The window is over. The chain may take one more step back.
  await market.wanted()
  expect([market.deposits(), (await market.stored()).moved.in]).toEqual([MOST, MOST])
  market.buyer.clock.advance(60 * 60_000)
  await until(async () => (await market.stored()).moved.in === 0n)
  await market.wanted()
  expect(market.deposits()).toBe(2n * MOST)
})

test('a channel whose only deposit was taken back is closed when it can never happen again', async () => {
  const market = await marketOf(empty)
  market.lie()
  market.undo()
  await market.close()
  await until(async () => (await market.stored()).leaving?.trouble !== undefined)
  expect((await market.stored()).closedAt).toBeUndefined()
  market.buyer.clock.advance(80 * 60_000)
  await until(async () => (await market.stored()).closedAt !== undefined)
})

test('a channel that the RPC shows as claimed counts with what was not signed for', async () => {
  const market = await marketOf((truth) => ({ ...truth, totalClaimed: truth.balance }))
  market.lie()
  market.buyer.clock.advance(AGAIN_MS)
  const { line } = market
  await until(async () => (await line()).channel.onChain.totalClaimed === MOST)
  await market.wanted()
  expect(market.deposits()).toBe(MOST)
})

test('what a refund took out, by the log of the chain, is free for another deposit, and no more than that', async () => {
  const market = await marketOf(empty)
  market.lie()
  market.log(MOST / 2n)
  await market.readAgain(0n)
  // Limits are judged by what is stored.
  await until(async () => (await market.stored()).moved.out === MOST / 2n)
  await market.wanted()
  expect(market.deposits()).toBe(MOST + MOST / 2n)

  const whole = await marketOf(empty)
  whole.lie()
  whole.log(MOST)
  await whole.readAgain(0n)
  await until(async () => (await whole.stored()).moved.out === MOST)
  await whole.wanted()
  expect(whole.deposits()).toBe(2n * MOST)
})

test('a reading that contradicts the log closes no channel, and says so; without a log the reading is all there is', async () => {
  const market = await marketOf(empty)
  market.lie()
  await market.close()
  await until(async () => (await market.stored()).leaving?.trouble !== undefined)
  const { leaving, closedAt } = await market.stored()
  expect([leaving?.trouble?.reason, closedAt]).toEqual([
    expect.stringMatching(/^the RPC shows 1 USDC less in the channel than was put in, and nothing by which it left/),
    undefined,
  ])
  market.log(0n, false)
  market.buyer.clock.advance(AGAIN_MS)
  await until(async () => (await market.stored()).closedAt !== undefined)
  expect(isEmpty(await market.stored())).toBe(false)
  await market.wanted()
  expect(market.deposits()).toBe(MOST)
})
