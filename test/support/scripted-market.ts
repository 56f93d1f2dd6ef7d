import { onTestFinished } from 'vitest'
import { createChannels } from '../../src/buying/channels/channels.ts'
import type { MissingDeps } from '../../src/buying/channels/missing.ts'
import type { ChannelReader } from '../../src/chain/batch-settlement.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { PaymentChain } from '../../src/payments/chain-verdict.ts'
import type { ChannelTerms } from '../../src/schema/channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { createBuyerChannels } from '../../src/store/buyer-channels.ts'
import type { ChannelScript } from './channel-script.ts'
import { sellerWallet, testWallet } from './payments.ts'
import { TestBuyer } from './test-buyer.ts'
import { until } from './until.ts'

/** What a seller of tests wants of channels. */
export const testTerms: ChannelTerms = {
  ...{ receiver_authorizer: sellerWallet.channelSigner('claims').address, withdraw_delay: 900, min_deposit: 5_000n },
}

const noSender = () => Promise.reject(new Error('this test has no chain'))
const DAY_MS = 24 * 60 * 60 * 1000
type Reader = Pick<ChannelReader, 'channels'> & Partial<Pick<MissingDeps, 'takenOut'> & MissingDeps['chain']>
type Seller = Pick<ChannelScript, 'open'> & { reader: Reader }
/** What the chain shows to have gone has left. */
const honest: MissingDeps['takenOut'] = async ({ wanted }) => ({ amount: wanted, isWhole: true })

/** A buyer with `buyer.channels: auto` at a seller. `calls`: how many successful ones it has seen before. */
export async function scriptedMarket(
  seller: Seller,
  { price, calls = 0, chain }: { price: bigint; calls?: number; chain?: PaymentChain },
) {
  const buyer = new TestBuyer({ open: seller.open, chain })
  const store = createBuyerChannels(buyer.database)
  const unused = async () => ({ use: { state: 'unused' } as const, timeMs: buyer.clock.now() })
  const authorizationAt = seller.reader.authorizationAt ?? unused
  const channels = createChannels(
    { mode: 'auto', aheadCalls: 10, depositMax: 1_000_000n, idleMs: DAY_MS },
    {
      ...{ clock: buyer.clock, logger: silentLogger, store, wallet: testWallet(), streams: buyer.streams },
      ...{ callerDid: 'did:buyer', addrsOf: () => [], sender: noSender, stats: () => ({ calls, success_rate: 1 }) },
      onChain: {
        ...{ reader: seller.reader, takenOut: seller.reader.takenOut ?? honest },
        chain: { authorizationAt, blockTimeMs: async () => buyer.clock.now() },
      },
    },
  )
  buyer.deps.channels = channels
  const list = (channel: ChannelTerms | undefined) =>
    buyer.list({ price, price_atomic: price.toString(), ...(channel && { channel }) })
  list(testTerms)
  for (const service of channels.services) await service.start()
  onTestFinished(async () => {
    for (const service of channels.services) await service.stop()
  })
  const stored = async () => (await store.list())[0]!
  return {
    ...{ buyer, channels, store, list, stored },
    line: async () => channels.line((await stored()).id as Hex)!,
    /** Waits for a channel that a first call opens. The call itself may be refused. */
    async open(): Promise<void> {
      await buyer.execute().catch(() => {})
      await until(async () => {
        const [channel] = await store.list()
        return channel !== undefined && channel.deposit === undefined && channel.onChain.balance > 0n
      })
    },
  }
}
