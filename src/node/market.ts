import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { Pace } from '../lib/pace.ts'
import { type Catalog, createCatalog } from '../listings/catalog.ts'
import { type AskSeller, createImports, importing } from '../listings/imports.ts'
import { createReplica, type Replica } from '../listings/replica.ts'
import type { Host } from '../p2p/host.ts'
import type { Identity } from '../p2p/identity.ts'
import type { Hex, Network } from '../schema/primitives.ts'
import { createPresences } from '../search/presence.ts'
import { createSearch, type Search, type SearchDeps } from '../search/search.ts'
import { searchUpkeep } from '../search/upkeep.ts'
import type { Database } from '../store/database.ts'
import { createImportStore } from '../store/imports.ts'
import { createListingSearch } from '../store/listing-search.ts'
import { createListingStore } from '../store/listings.ts'
import { createLookAlikes } from '../store/look-alikes.ts'
import type { Measures } from '../trust/measures.ts'

export type { Search } from '../search/search.ts'

/** The market: the replica of all listings, the catalog and the search. */
export type Market = {
  replica: Replica
  catalog: Catalog
  /** Imported listings, as the API changes them. */
  importing(asset: Hex, ask: AskSeller): ReturnType<typeof importing>
  search: Search
  services: readonly Service[]
}

export function createMarket(deps: {
  host: Host
  identity: Identity
  database: Database
  clock: Clock
  logger: Logger
  /** Limits how fast this node works on input from others. */
  pace: Pace
  measures: Pick<Measures, 'share'>
  /** The only network on which this node pays (D37). */
  network: Network
  standing: NonNullable<SearchDeps['standing']>
  /** Called once when another node signs listings with this node's key. */
  copied(agentName: string): void
}): Market {
  const { host, identity, database, clock, logger, pace, measures, network } = deps
  const sellerId = identity.peerId
  const store = createListingStore(database, pace)
  const isCalled = (agentId: string) => measures.share(agentId) !== undefined
  const replica = createReplica({}, { host, identity, store, clock, logger, pace, isCalled, copied: deps.copied })
  const imports = createImports({ clock, store: createImportStore(database), network, sellerId })
  const catalog = createCatalog({ replica, sellerId, network, imports })
  const addressesOf = (id: string) => replica.get(id)?.addrs
  const presences = createPresences({ host, clock, addressesOf })
  const search = createSearch({
    clock,
    search: createListingSearch(database),
    catalog,
    imported: imports.matching,
    sellerId,
    idsBeginning: (beginning, max) => replica.idsBeginning(beginning, max),
    presence: presences.of,
    measured: (id) => measures.share(id),
    standing: deps.standing,
  })
  const upkeep = searchUpkeep({ store, lookAlikes: createLookAlikes(database, pace), clock, logger })
  const withAsset: Market['importing'] = (asset, ask) => importing(imports, asset, ask)
  return { replica, catalog, importing: withAsset, search, services: [replica, upkeep, presences.service] }
}
