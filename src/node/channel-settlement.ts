import { type ChannelReader, createChannelReader } from '../chain/batch-settlement.ts'
import type { Config } from '../config/config.ts'
import { believedReader } from '../payments/channels/believed-reader.ts'
import { currentReader, lagOf, lagText } from '../payments/channels/chain-lag.ts'
import { createChannelDeposits } from '../payments/channels/channel-deposits.ts'
import { ChannelKeeper } from '../payments/channels/channel-keeper.ts'
import { createChannelRefunds } from '../payments/channels/channel-refunds.ts'
import { createChannelRelay } from '../payments/channels/channel-relay.ts'
import { type ChannelsSummary, summarize } from '../payments/channels/channels-summary.ts'
import type { KeptChannels } from '../payments/channels/kept-channels.ts'
import { UnpaidDeposits } from '../payments/channels/unpaid-deposits.ts'
import type { Sender } from '../payments/sender.ts'
import type { Network } from '../schema/primitives.ts'
import { takeRole } from '../store/ownership.ts'
import { createSellerChannelStore } from '../store/seller-channels.ts'
import { createChannelFunds } from './channel-funds.ts'
import type { Foundation } from './foundation.ts'

/** Blocks above the one whose deposits count. Base takes 2 s for each; a devnet makes blocks only for transactions. */
const DEPTHS: Record<Network, number> = { 'eip155:8453': 2, 'eip155:84532': 0 }

/** Base makes a block each 2 s. A devnet makes blocks only for transactions, and has the id of the network for tests. */
const LAGS_MAX_MS: Record<Network, number> = { 'eip155:8453': 3 * 60_000, 'eip155:84532': Number.POSITIVE_INFINITY }

type ChannelSettlementDeps = Pick<
  Foundation,
  'clock' | 'logger' | 'database' | 'isShared' | 'chain' | 'facilitator' | 'wallet' | 'asset'
> & {
  /** The channels that this process has. They are built later, and so is the sender. */
  channels(): KeptChannels
  /** The only sender of this node's transactions. */
  sender(): Promise<Pick<Sender, 'send'>>
}

/** What payment channels to this node need of the chain. Undefined without an RPC: then this node takes no channels. */
export function createChannelSettlement({ network, seller }: Config, deps: ChannelSettlementDeps) {
  const { clock, logger, database, isShared, chain, facilitator, wallet, asset } = deps
  if (chain === undefined) return undefined
  const [depth, lagMaxMs] = [DEPTHS[network], LAGS_MAX_MS[network]]
  const newest = createChannelReader(chain)
  const reader = believedReader(newest, { chain, depth })
  // All that decides whether escrow is there reads only new blocks. The keeper may read an old block, because it only claims.
  const current = <Reader extends Pick<ChannelReader, 'channels'>>(one: Reader) =>
    currentReader(one, { chain, clock, lagMaxMs })
  const authorizer = wallet.channelSigner('claims')
  const relay = createChannelRelay({
    ...{ asset, clock, chain, facilitators: facilitator?.channels ?? [] },
    own: { address: wallet.address, sender: deps.sender },
  })
  const kept: KeptChannels = {
    list: () => deps.channels().list(),
    seen: (...reading) => deps.channels().seen(...reading),
    know: (...asked) => deps.channels().know(...asked),
    agreeToRefund: (...asked) => deps.channels().agreeToRefund(...asked),
  }
  const withdrawDelaySecondsMin = seller.channelWithdrawDelaySeconds
  const parties = { receiver: wallet.address, receiverAuthorizer: authorizer.address }
  const store = createSellerChannelStore(database)
  const deposits = createChannelDeposits({
    ...{ asset, clock, chain, reader: current(newest), relay, depth },
    terms: { ...parties, token: asset.address, withdrawDelaySecondsMin },
    depositMin: seller.channelMinDepositAtomic,
    unpaid: new UnpaidDeposits({ clock, store }),
  })
  const common = { clock, logger, chain, reader, relay, kept, authorizer, chainId: asset.chainId }
  const refunds = createChannelRefunds({ ...common, reader: current(reader) })
  const keeper = new ChannelKeeper(
    { claimThreshold: seller.channelClaimThresholdAtomic, lagMaxMs },
    {
      ...{ ...common, refunds, receiver: wallet.address, token: asset.address },
      isKeeper: async () => !isShared || takeRole(database, 'channels'),
    },
  )
  const funds = createChannelFunds({ ...common, deposits, refunds, store })
  const stopping = { name: 'channel deposits', start: async () => {}, stop: async () => deposits.stop() }
  return {
    /** What selling on channels needs. */
    parts: {
      ...{ reader: current(reader), withdrawDelaySecondsMin, funds },
      /** Why channels cannot be settled here, for people. */
      async trouble(signal: AbortSignal) {
        const lagMs = lagOf(await chain.blockTimeMs(signal), { clock, lagMaxMs })
        return lagMs > 0 ? lagText(lagMs) : relay.trouble(signal)
      },
    },
    summary: (): ChannelsSummary => summarize(keeper.sight()),
    /** Claims what processes that have ended have left. */
    soon: () => keeper.soon(),
    services: [stopping, keeper],
  }
}
