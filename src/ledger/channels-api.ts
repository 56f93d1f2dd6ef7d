import { CodedError } from '../lib/errors.ts'
import type { ChannelQuery, ChannelRecord, ChannelSums } from '../schema/channel-record.ts'
import type { Page } from '../schema/page.ts'
import type { Hex } from '../schema/primitives.ts'
import type { BuyerChannels } from '../store/buyer-channels.ts'
import type { ChannelPlace } from '../store/channel-page.ts'
import type { SellerChannelStore } from '../store/seller-channels.ts'
import { paidChannel, payingChannel } from './channel-record.ts'
import { paidSums, payingSums } from './channel-sums.ts'
import type { NamesOf } from './order-record.ts'

/** The payment channels of this node, in both roles, as the API shows them. */
export interface ChannelsApi {
  list(query: ChannelQuery): Promise<Page<ChannelRecord>>
  /** @throws CodedError UNKNOWN_CHANNEL */
  get(id: string): Promise<ChannelRecord>
  /** What lies in all channels of the node's network. */
  sums(): Promise<ChannelSums>
}

type ChannelsApiDeps = {
  network: string
  paying: Pick<BuyerChannels, 'page' | 'get' | 'list'>
  paid: Pick<SellerChannelStore, 'page' | 'get' | 'amounts'>
  namesOf: NamesOf
  /** What peers call themselves, of those that sell on the market. */
  peerNames(peerIds: ReadonlySet<string>): ReadonlyMap<string, string>
}

type Bought = Parameters<typeof payingChannel>[0]
type Sold = Parameters<typeof paidChannel>[0]

/** Reads the ledger, so it shows the channels of all processes, also if this node does not take channels. */
export function createChannelsApi({ network, paying, paid, namesOf, peerNames }: ChannelsApiDeps): ChannelsApi {
  function showBought(channel: Bought): ChannelRecord {
    const known = channel.agentId === undefined ? undefined : namesOf(channel.agentId)
    return payingChannel(channel, { peer: known?.seller_name, agent: known?.name })
  }
  const showSold = (channel: Sold, names: ReadonlyMap<string, string>) =>
    paidChannel(channel, { peer: names.get(channel.peerId) })

  return {
    async list({ role, limit, cursor }) {
      const before = cursor === undefined ? undefined : placeIn(cursor)
      const [bought, sold] = await Promise.all([
        role === 'seller' ? [] : paying.page(limit + 1, before),
        role === 'buyer' ? [] : paid.page(limit + 1, before),
      ])
      const names = peerNames(new Set(sold.map(({ peerId }) => peerId)))
      const rows = [
        ...bought.map((channel) => ({ place: channel, show: () => showBought(channel) })),
        ...sold.map((channel) => ({ place: channel, show: () => showSold(channel, names) })),
      ].sort((a, b) => newestFirst(a.place, b.place))
      const shown = rows.slice(0, limit)
      const last = rows.length > limit ? shown.at(-1)!.place : undefined
      return { items: shown.map(({ show }) => show()), next: last && `${last.createdAt}.${last.id}` }
    },
    async get(given) {
      const id = given.toLowerCase() as Hex
      const bought = await paying.get(id)
      if (bought !== undefined) return showBought(bought)
      const sold = await paid.get(id)
      if (sold !== undefined) return showSold(sold, peerNames(new Set([sold.peerId])))
      throw new CodedError('UNKNOWN_CHANNEL', 'no payment channel has this id: GET /channels lists them')
    },
    async sums() {
      const [bought, sold] = await Promise.all([paying.list(), paid.amounts(network)])
      const here = bought.filter((channel) => channel.network === network)
      return { paying: payingSums(here), paid: paidSums(sold) }
    },
  }
}

/** By the time of the first use. Ids decide between equal times, as in the store. */
function newestFirst(a: ChannelPlace, b: ChannelPlace): number {
  return b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1)
}

function placeIn(cursor: string): ChannelPlace {
  const [createdAt, id] = cursor.split('.')
  return { createdAt: Number(createdAt), id: id as Hex }
}
