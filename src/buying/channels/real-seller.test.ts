import { expect, onTestFinished, test } from 'vitest'
import { channelTerms, FakeChannels, PRICE } from '../../../test/support/channel-buyer.ts'
import { sellerWallet, testWallet } from '../../../test/support/payments.ts'
import { TestBuyer } from '../../../test/support/test-buyer.ts'
import { until } from '../../../test/support/until.ts'
import { TestSeller } from '../../../test/support/x402-seller.ts'
import { silentLogger } from '../../lib/logger.ts'
import type { Hex } from '../../schema/primitives.ts'
import { createBuyerChannels } from '../../store/buyer-channels.ts'
import { createChannels } from './channels.ts'

/** A buyer with `buyer.channels: auto` and the seller of this node, over streams in memory. The chain takes each deposit. */
const DAY_MS = 24 * 60 * 60 * 1000
const noSender = () => Promise.reject(new Error('this test has no chain'))

async function market() {
  const chain = new FakeChannels()
  let deposits = 0
  const funds = {
    async deposit({ channelId, deposit }: { channelId: Hex; deposit: { amount: bigint } }) {
      chain.set(channelId, ((await chain.channels([channelId]))[0]?.balance ?? 0n) + deposit.amount)
      deposits++
      return { txHash: undefined }
    },
    refund: async () => ({ txHash: undefined }),
  }
  const parts = { channels: { reader: chain, ...channelTerms, funds } }
  const seller = await new TestSeller(parts).start()
  onTestFinished(() => seller.stop())
  let current = seller
  const buyer = new TestBuyer({ open: (_, protocol) => current.open('buyer', protocol), dailyBudget: 100n * PRICE })
  const store = createBuyerChannels(buyer.database)
  const channels = createChannels(
    { mode: 'auto', aheadCalls: 10, depositMax: 1_000_000n, idleMs: DAY_MS },
    {
      ...{ clock: buyer.clock, logger: silentLogger, store, wallet: testWallet(), streams: buyer.streams },
      ...{
        callerDid: 'did:buyer',
        addrsOf: () => [],
        sender: noSender,
        stats: () => ({ calls: 100, success_rate: 1 }),
      },
      onChain: {
        reader: chain,
        chain: {
          authorizationAt: async () => ({ use: { state: 'unused' }, timeMs: buyer.clock.now() }),
          blockTimeMs: async () => buyer.clock.now(),
        },
      },
    },
  )
  buyer.deps.channels = channels
  const receiver_authorizer = sellerWallet.channelSigner('claims').address
  buyer.list({ channel: { receiver_authorizer, withdraw_delay: 86_400, min_deposit: 1n } })
  for (const service of channels.services) await service.start()
  onTestFinished(async () => {
    for (const service of channels.services) await service.stop()
  })
  const opened = async () => (await store.list())[0]!
  return {
    ...{ buyer, seller, channels, opened, deposits: () => deposits },
    /** The seller's next process has the ledger. */
    async restart() {
      await seller.stop()
      current = await new TestSeller({ ...parts, database: seller.database, clock: seller.clock }).start()
      onTestFinished(() => current.stop())
      return current
    },
  }
}

test('a buyer and a seller of this node trade: `exact` first, then a channel, and the sums of both sides agree', async () => {
  const { buyer, seller, opened } = await market()
  // Five calls in an hour to one payee are worth a channel, also at this price.
  for (let call = 0; call < 5; call++) await buyer.execute()
  const first = (await buyer.ledger()).map(({ reservation }) => reservation?.channel)
  expect(first).toEqual([undefined, undefined, undefined, undefined, undefined])
  await until(async () => (await opened())?.deposit === undefined && (await opened())?.onChain.balance === 20n * PRICE)
  const results = await Promise.all(Array.from({ length: 12 }, (_, n) => buyer.execute({ input: `task ${n}` })))
  expect(results.map(({ output }) => output)).toEqual(Array.from({ length: 12 }, (_, n) => `re: task ${n}`))
  const { id, charged, seq, stopped, mark } = await opened()
  expect({ charged, seq, stopped }).toEqual({ charged: 12n * PRICE, seq: 12, stopped: undefined })
  const atSeller = (await seller.records.sellerChannels.take(id))!.channel
  expect([atSeller.charged, atSeller.seq]).toEqual([charged, seq])
  expect(atSeller.best!.maxClaimableAmount).toBeLessThanOrEqual(mark)
  expect(await buyer.spent()).toBe(17n * PRICE)
})

test('a channel is filled up at a quarter, and survives a restart of its seller', async () => {
  const { buyer, opened, restart, deposits, channels } = await market()
  for (let call = 0; call < 5; call++) await buyer.execute()
  await until(async () => (await opened())?.onChain.balance === 20n * PRICE)
  for (let call = 0; call < 17; call++) await buyer.execute()
  await until(async () => (await opened()).onChain.balance === 40n * PRICE)
  expect(deposits()).toBe(2)
  await restart()
  for (let call = 0; call < 3; call++) expect(await buyer.execute()).toMatchObject({ output: 're: task' })
  const { id, charged, stopped } = await opened()
  expect([charged, stopped, channels.line(id)!.channel.inFlight.size]).toEqual([20n * PRICE, undefined, 0])
})
