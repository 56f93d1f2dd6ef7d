import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { Host } from '../p2p/host.ts'
import type { Identity } from '../p2p/identity.ts'
import type { Network } from '../schema/primitives.ts'
import type { Database } from '../store/database.ts'
import { createListingSearch } from '../store/listing-search.ts'
import { createListingStore } from '../store/listings.ts'
import { createLookAlikes } from '../store/look-alikes.ts'
import { type Catalog, createCatalog } from './catalog.ts'
import type { Measures } from './measures.ts'
import { createPresences } from './presence.ts'
import { createReplica, type Replica } from './replica.ts'
import { createSearch, type Search, type SearchDeps } from './search.ts'
import { searchUpkeep } from './search-upkeep.ts'

export type { Search } from './search.ts'

/** What is for sale: the replica of it, shown and searched. */
export type Market = { replica: Replica; catalog: Catalog; search: Search; services: readonly Service[] }

export function createMarket(deps: {
  host: Host
  identity: Identity
  database: Database
  clock: Clock
  logger: Logger
  measures: Pick<Measures, 'share'>
  /** The one network that this node pays on (D37). */
  network: Network
  standing: NonNullable<SearchDeps['standing']>
}): Market {
  const { host, identity, database, clock, logger, measures, network } = deps
  const sellerId = identity.peerId
  const store = createListingStore(database)
  const isCalled = (agentId: string) => measures.share(agentId) !== undefined
  const replica = createReplica({}, { host, identity, store, clock, logger, isCalled })
  const catalog = createCatalog({ replica, sellerId, network })
  const addressesOf = (id: string) => replica.get(id)?.addrs
  const presences = createPresences({ host, clock, addressesOf })
  const search = createSearch({
    clock,
    search: createListingSearch(database),
    catalog,
    sellerId,
    idsBeginning: (beginning, max) => replica.idsBeginning(beginning, max),
    presence: presences.of,
    measured: (id) => measures.share(id),
    standing: deps.standing,
  })
  const upkeep = searchUpkeep({ store, lookAlikes: createLookAlikes(database), clock, logger })
  return { replica, catalog, search, services: [replica, upkeep, presences.service] }
}
