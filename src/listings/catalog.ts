import { isoTime } from '../lib/clock.ts'
import { didOfPeer } from '../p2p/did.ts'
import type { Listing, ListingRecord } from '../schema/listing.ts'
import type { Network } from '../schema/primitives.ts'
import type { Imports } from './imports.ts'
import type { Replica } from './replica.ts'

/** The market as the API shows it (D6). Prices in memory are atomic units. */
export type Catalog = {
  /** All listings on the market, this node's own included. */
  all(): Listing[]
  local(): Listing[]
  /** Listings of other sellers. */
  discovered(): Listing[]
  count(): number
  resolve(id: string): Listing | undefined
  /** The name by which the seller of this agent knows it. It is the id, unless the agent was imported. */
  resourceOf(id: string): string
}

export function createCatalog(deps: {
  replica: Pick<Replica, 'all' | 'get' | 'own' | 'count'>
  sellerId: string
  /** The only network this node pays on (D37). */
  network: Network
  imports?: Pick<Imports, 'get' | 'resourceOf'>
}): Catalog {
  const { replica, sellerId, network, imports } = deps
  // A record never changes, so it is converted once.
  const listings = new WeakMap<ListingRecord, Listing>()

  function listingOf(record: ListingRecord): Listing {
    const known = listings.get(record)
    if (known !== undefined) return known
    const listing = toListing(record, { sellerId, network })
    listings.set(record, listing)
    return listing
  }

  return {
    all: () => replica.all().map(listingOf),
    local: () => replica.own().map(listingOf),
    discovered: () => replica.all().flatMap((record) => (record.seller_id === sellerId ? [] : listingOf(record))),
    count: () => replica.count(),
    resolve(id) {
      const record = replica.get(id)
      return record === undefined ? imports?.get(id) : listingOf(record)
    },
    resourceOf: (id) => imports?.resourceOf(id) ?? id,
  }
}

/** Converts a replicated record for the node `sellerId`, which pays on `network`. */
function toListing(record: ListingRecord, { sellerId, network }: { sellerId: string; network: Network }): Listing {
  const { v: _v, state: _state, price_atomic, updated_at, expires_at, ...shown } = record
  return {
    ...(record.pricing !== undefined && record.pricing.max > price_atomic ? withoutChannels(shown) : shown),
    price: price_atomic,
    price_atomic: price_atomic.toString(),
    seller_did: didOfPeer(record.seller_id),
    updated_at: isoTime(updated_at),
    expires_at: isoTime(expires_at),
    local: record.seller_id === sellerId,
    buyable: record.network === network,
  }
}

/** Limits, searches and people rely on the price of an agent. If use may cost more, it is shown without channels (T2). */
function withoutChannels<T extends Pick<ListingRecord, 'pricing' | 'channel'>>(
  shown: T,
): Omit<T, 'pricing' | 'channel'> {
  const { pricing: _pricing, channel: _channel, ...rest } = shown
  return rest
}
