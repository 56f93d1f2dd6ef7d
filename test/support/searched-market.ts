import { silentLogger } from '../../src/lib/logger.ts'
import { createCatalog } from '../../src/listings/catalog.ts'
import { rowOf } from '../../src/listings/rows.ts'
import type { Listing, ListingRecord } from '../../src/schema/listing.ts'
import type { Presence } from '../../src/search/ranking.ts'
import { createSearch, type Search } from '../../src/search/search.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createListingSearch } from '../../src/store/listing-search.ts'
import { createListingStore, type ListingStore } from '../../src/store/listings.ts'
import { createLookAlikes } from '../../src/store/look-alikes.ts'
import { createMeasureStore } from '../../src/store/measures.ts'
import { createMeasures, type Measures } from '../../src/trust/measures.ts'
import { HandClock } from './hand-clock.ts'
import { listingRecord, replicaOf } from './listings.ts'

/** Peer ids of four sellers. The first is this node. */
export const sellers = [
  '12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7zxWSUEeF27st',
  '12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo',
  '12D3KooWLJtG8fd2hkQzTn96MrLvThmnNQjTUFZwGEsLRz5EmSzc',
  '12D3KooWSHj3RRbBjD15g6wekV8y3mm57Pobmps2g2WJm6F67Lay',
] as const
export const [me, ann, bob, eve] = sellers

/** A market in memory: its rows, its index and its search, as in a node. */
export type SearchedMarket = {
  clock: HandClock
  database: Database
  store: ListingStore
  search: Search
  presences: Map<string, Presence>
  measures: Measures
  /** The imported listings. */
  imported: Listing[]
  /** Lists agents of a seller, in the given order, and compares their names. */
  list(sellerId: string, names: readonly string[], changes?: Partial<ListingRecord>): Promise<ListingRecord[]>
  delist(record: ListingRecord): Promise<void>
  compare(): Promise<void>
}

export function searchedMarket(): SearchedMarket {
  const clock = new HandClock()
  const database = openDatabase({ path: ':memory:' })
  const store = createListingStore(database)
  const records = new Map<string, ListingRecord>()
  const presences = new Map<string, Presence>()
  const imported: Listing[] = []
  const catalog = createCatalog({
    replica: replicaOf(() => [...records.values()], me),
    sellerId: me,
    network: 'eip155:84532',
  })
  const measures = createMeasures({ store: createMeasureStore(database), clock, logger: silentLogger })
  const search = createSearch({
    clock,
    search: createListingSearch(database),
    catalog,
    sellerId: me,
    presences: { of: (sellerId) => presences.get(sellerId) },
    imports: { matching: () => imported },
    measured: (id) => measures.share(id),
    standing: ({ id }) => ({ stats: measures.stats(id) }),
  })
  const names = createLookAlikes(database)

  async function compare(): Promise<void> {
    while (await names.step()) {}
  }

  function put(record: ListingRecord): void {
    const { id } = record
    records.set(id, record)
    const entry = { record, hash: '00'.repeat(32), bytes: 1 }
    store.putLater(rowOf(entry, new Uint8Array([1]), { seenAt: clock.now() }))
    if (record.state === 'delisted') records.delete(id)
  }

  return {
    clock,
    database,
    store,
    search,
    presences,
    imported,
    measures,
    compare,
    async list(sellerId, agents, changes = {}) {
      const listed = agents.map((name) => listingRecord(sellerId, name, clock.now(), changes))
      for (const record of listed) put(record)
      await store.flush()
      await compare()
      return listed
    },
    async delist(record) {
      put({ ...record, state: 'delisted', version: record.version + 1 })
      await store.flush()
    },
  }
}
