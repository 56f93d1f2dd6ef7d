import type { Buyer } from '../buying/buyer.ts'
import type { Config } from '../config/config.ts'
import { type ChannelsApi, createChannelsApi } from '../ledger/channels-api.ts'
import { createLedgerApi, type LedgerApi } from '../ledger/ledger-api.ts'
import type { NamesOf } from '../ledger/order-record.ts'
import { createEarnings, type Earnings } from '../ledger/stats.ts'
import { retrySettlement } from '../payments/outbox-entry.ts'
import { createBuyerChannels } from '../store/buyer-channels.ts'
import { createLedgerReader } from '../store/ledger-reader.ts'
import { createSellerChannelStore } from '../store/seller-channels.ts'
import { createPeerNames } from './agent-names.ts'
import type { Foundation } from './foundation.ts'
import type { Listings } from './market.ts'
import type { Selling } from './selling.ts'
import type { Trust } from './trust.ts'

type BooksDeps = Pick<Foundation, 'database' | 'clock' | 'asset' | 'chain'> & {
  namesOf: NamesOf
  listings: Pick<Listings, 'replica'>
  selling: Pick<Selling, 'named' | 'outbox'>
  buyer: Pick<Buyer, 'look' | 'ownerOf' | 'isReceived'>
  trust: Pick<Trust, 'refund'>
}

type Books = { ledger: LedgerApi; earnings: Earnings; channels: ChannelsApi; channelSums: ChannelsApi['sums'] }

export function createBooks({ network }: Config, deps: BooksDeps): Books {
  const { database, clock, asset, namesOf, selling, buyer, trust } = deps
  const hasChain = deps.chain !== undefined
  const reader = createLedgerReader(database, { hasChain, network })
  const nameOf = (agentId: string) => namesOf(agentId)?.name
  const ledger = createLedgerApi({
    ...{ ledger: reader, nameOf, named: selling.named, refund: trust.refund },
    look: buyer.look,
    ownerOf: async (orderId) => buyer.ownerOf(orderId),
    isReceived: async (orderId) => buyer.isReceived(orderId),
    retrySettlement: (id) => retrySettlement(id, { ...selling.outbox, clock, hasChain }),
  })
  const earnings = createEarnings({ clock, ledger: reader, decimals: asset.decimals, nameOf })
  const paying = createBuyerChannels(database)
  const peerNames = createPeerNames(deps.listings.replica)
  const paid = createSellerChannelStore(database)
  const channels = createChannelsApi({ network, paying, paid, namesOf, peerNames })
  return { ledger, earnings, channels, channelSums: channels.sums }
}
