import { PRICE_ATOMIC_MAX } from '../schema/amount.ts'
import { PAGE_LISTINGS_MAX } from '../schema/limits.ts'
import type { AgentQuery, AgentScope } from '../schema/search.ts'
import type { ListingSearch } from '../store/listing-search.ts'
import type { Mark } from '../store/listing-text.ts'
import type { SearchPlace } from './cursor.ts'
import { type Reading, readingsOf } from './query-words.ts'

/** A query with everything derived from it. */
export type SearchTask = {
  query: AgentQuery
  scope: AgentScope
  limit: number
  marks: Mark[]
  priceMax: number
  reading: Reading | undefined
  readingPlace: number
  network: NonNullable<AgentQuery['network']>
  /** Identifies the order, for the cursor. */
  key: string
}

/** @returns undefined if the query has words, but no reading of them finds anything */
export function taskOf(
  query: AgentQuery,
  scope: AgentScope,
  place: SearchPlace | undefined,
  { search, sellerId }: { search: ListingSearch; sellerId: string },
): SearchTask | undefined {
  const readings = query.q === undefined || query.q.trim() === '' ? undefined : readingsOf(query.q, search)
  const readingPlace =
    readings === undefined ? 0 : place !== undefined && 'reading' in place ? place.reading : readings.first()
  const reading = readingPlace === undefined ? undefined : readings?.at(readingPlace)
  if (readings !== undefined && reading === undefined) return undefined
  return {
    query,
    scope,
    limit: query.limit ?? PAGE_LISTINGS_MAX,
    marks: marksOf(query, scope === 'local' ? sellerId : undefined),
    priceMax: Number(query.max_price ?? PRICE_ATOMIC_MAX),
    reading,
    readingPlace: readingPlace ?? 0,
    network: query.network ?? (isSearch(query) ? 'own' : 'any'),
    key: keyOf(query, scope),
  }
}

/** Identifies the order of a query's results. A cursor is valid only for the same key. */
export function keyOf(
  { cursor: _c, sort = 'rank', limit: _l, explain: _e, include: _i, ...deciding }: AgentQuery,
  scope: AgentScope,
) {
  return JSON.stringify([scope, sort, { ...deciding, max_price: deciding.max_price?.toString() }])
}

/**
 * True if the query filters anything. Without a filter it is a list of everything known, which also shows agents of
 * other networks, marked (D37).
 */
function isSearch({ cursor: _c, sort: _s, limit: _l, explain: _e, include: _i, ...deciding }: AgentQuery): boolean {
  return Object.values(deciding).some((value) => value !== undefined)
}

function marksOf({ tags = [], free, protocol, seller_id }: AgentQuery, ownSellerId: string | undefined): Mark[] {
  return [
    ...tags.map((tag) => ({ kind: 'tag', tag }) as const),
    ...(free === undefined ? [] : [{ kind: free ? 'free' : 'paid' } as const]),
    ...(protocol === undefined ? [] : [{ kind: 'protocol', protocol } as const]),
    ...[seller_id, ownSellerId].flatMap((id) => (id === undefined ? [] : [{ kind: 'seller', sellerId: id } as const])),
  ]
}
