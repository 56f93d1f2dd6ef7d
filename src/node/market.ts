import type { Service } from '../lib/lifecycle.ts'
import { type Catalog, createCatalog } from '../listings/catalog.ts'
import { createImports, type Imports } from '../listings/imports.ts'
import { createReplica, type Replica } from '../listings/replica.ts'
import type { Network } from '../schema/primitives.ts'
import { createPresences } from '../search/presence.ts'
import { createSearch, type Search, type SearchDeps } from '../search/search.ts'
import { searchUpkeep } from '../search/upkeep.ts'
import { createImportStore } from '../store/imports.ts'
import { createListingSearch } from '../store/listing-search.ts'
import { createListingVersions } from '../store/listing-versions.ts'
import { createListingStore, type ListingStore } from '../store/listings.ts'
import { createLookAlikes } from '../store/look-alikes.ts'
import type { Measures } from '../trust/measures.ts'
import type { Foundation } from './foundation.ts'

/** The listings of the market: the replica, imported listings, and the catalog of both. */
export type Listings = { store: ListingStore; replica: Replica; imports: Imports; catalog: Catalog }

type Shared = Pick<Foundation, 'marketHost' | 'identity' | 'localDatabase' | 'clock' | 'logger' | 'pace'> & {
  measures: Pick<Measures, 'share'>
}

/** @param network the only network on which this node pays (D37) */
export function createListings(
  network: Network,
  deps: Shared & Pick<Foundation, 'database' | 'isShared' | 'siblings' | 'trading'>,
): Listings {
  const { marketHost, siblings, identity, localDatabase, clock, logger, pace, measures, trading } = deps
  const sellerId = identity.peerId
  const store = createListingStore(localDatabase, pace)
  const hasCalled = (agentId: string) => measures.share(agentId) !== undefined
  const host = { ...marketHost, addresses: siblings.addresses, onAddressesChange: siblings.onAddressesChange }
  const versions = deps.isShared ? createListingVersions(deps.database) : undefined
  const replica = createReplica(
    {},
    { host, identity, store, clock, logger, pace, hasCalled, copied: trading.copied, versions },
  )
  const imports = createImports({ clock, store: createImportStore(localDatabase), network, sellerId })
  const catalog = createCatalog({ replica, sellerId, network, imports })
  return { store, replica, imports, catalog }
}

/** The search over the listings, with what this node knows of their sellers. */
export function createMarket(
  deps: Shared &
    Pick<Foundation, 'host' | 'peers'> & { listings: Listings; standing: NonNullable<SearchDeps['standing']> },
): {
  search: Search
  services: readonly Service[]
} {
  const { host, peers, identity, localDatabase, clock, logger, pace, measures, listings, standing } = deps
  const { store, replica, imports, catalog } = listings
  const presences = createPresences({ host: { ...host, peers }, clock, addressesOf: (id) => replica.get(id)?.addrs })
  const search = createSearch({
    ...{ clock, catalog, standing },
    search: createListingSearch(localDatabase),
    sellerId: identity.peerId,
    imports,
    replica,
    presences,
    measured: (id) => measures.share(id),
  })
  const upkeep = searchUpkeep({ store, lookAlikes: createLookAlikes(localDatabase, pace), clock, logger })
  return { search, services: [upkeep, presences.service] }
}
