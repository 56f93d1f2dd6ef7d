import { onTestFinished } from 'vitest'
import { createChannels } from '../../src/buying/channels/channels.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { ServedAgent } from '../../src/protocols/x402/exchange.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { createBuyerChannels } from '../../src/store/buyer-channels.ts'
import { channelTerms, FakeChannels, PRICE } from './channel-buyer.ts'
import { sellerWallet, testWallet } from './payments.ts'
import { TestBuyer } from './test-buyer.ts'
import { TestSeller } from './x402-seller.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const noSender = () => Promise.reject(new Error('this test has no chain'))

/** A buyer with `buyer.channels: auto` and the seller of this node, over streams in memory. The chain takes each deposit. */
export async function channelMarket({
  agent = {},
  listing = {},
  mode = 'auto',
  aheadCalls = 10,
  streamVouchers = false,
  voucherWaitMs,
  minDeposit = 1n,
  depositMax = 1_000_000n,
}: {
  agent?: Partial<ServedAgent>
  listing?: Partial<Listing>
  mode?: 'auto' | 'off'
  aheadCalls?: number
  /** Whether the listing says that output is paid for as it comes. */
  streamVouchers?: boolean
  voucherWaitMs?: number
  minDeposit?: bigint
  depositMax?: bigint
} = {}) {
  const chain = new FakeChannels()
  const deposited: bigint[] = []
  let mined = Promise.resolve()
  const funds = {
    async deposit({ channelId, deposit }: { channelId: Hex; deposit: { amount: bigint } }) {
      await mined
      chain.set(channelId, ((await chain.channels([channelId]))[0]?.balance ?? 0n) + deposit.amount)
      deposited.push(deposit.amount)
      return { txHash: undefined }
    },
    async refund({ channelId }: { channelId: Hex }) {
      const [onChain] = await chain.channels([channelId])
      return { txHash: undefined, amount: 0n, onChain: onChain! }
    },
  }
  const parts = {
    channels: { reader: chain, ...channelTerms, funds },
    ...(voucherWaitMs !== undefined && { voucherWaitMs }),
  }
  const seller = await new TestSeller(parts).start()
  seller.addAgent(agent)
  onTestFinished(() => seller.stop())
  let current = seller
  const buyer = new TestBuyer({ open: (_, protocol) => current.open('buyer', protocol), dailyBudget: 100n * PRICE })
  const store = createBuyerChannels(buyer.database)
  const channels = createChannels(
    { mode, aheadCalls, depositMax, idleMs: DAY_MS },
    {
      ...{ clock: buyer.clock, logger: silentLogger, store, wallet: testWallet(), streams: buyer.streams },
      ...{
        callerDid: 'did:buyer',
        addrsOf: () => [],
        sender: noSender,
        stats: () => ({ calls: 100, success_rate: 1 }),
      },
      onChain: {
        // What this chain shows to have gone has left.
        takenOut: async ({ wanted }) => ({ amount: wanted, isWhole: true }),
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
  const channel = {
    receiver_authorizer,
    withdraw_delay: 86_400,
    min_deposit: minDeposit,
    ...(streamVouchers && { stream_vouchers: true as const }),
  }
  buyer.list({ channel, ...listing })
  for (const service of channels.services) await service.start()
  onTestFinished(async () => {
    for (const service of channels.services) await service.stop()
  })
  const opened = async () => (await store.list())[0]!
  return {
    ...{ buyer, seller, channels, chain, opened, offer: channel, deposited, deposits: () => deposited.length },
    /** The chain takes no deposit until the function is called that this returns. */
    holdDeposits(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>()
      mined = promise
      return resolve
    },
    /** The seller's next process has the ledger. */
    async restart() {
      await seller.stop()
      current = await new TestSeller({ ...parts, database: seller.database, clock: seller.clock }).start()
      onTestFinished(() => current.stop())
      return current
    },
    /** The seller goes on without its ledger. */
    async loseLedger() {
      await seller.stop()
      const next = await new TestSeller({ ...parts, clock: seller.clock }).start()
      next.addAgent(agent)
      onTestFinished(() => next.stop())
      current = next
      return next
    },
  }
}
