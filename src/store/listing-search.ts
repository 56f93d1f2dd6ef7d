import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'
import { type MatchTerms, matchExpression } from './listing-match.ts'

/** The parts of a found listing that ranking needs. */
export type FoundListing = {
  /** Rises with each listing met: a lower number was met earlier. */
  number: number
  id: string
  sellerId: string
  /** In atomic units. */
  price: number
  updatedAt: UnixMs
  expiresAt: UnixMs
  firstSeen: UnixMs
  /** Number of the older listing of another seller that this listing resembles. */
  alike: number | null
  /** How well the words fit: BM25, higher is better. 0 without words. */
  fit: number
  /** 1 if the name equals what was typed, or looks the same. */
  named: 0 | 1
}

/** What this node remembers of a listing it has met, on the market or not. */
export type MetListing = {
  number: number
  id: string
  sellerId: string
  name: string
  firstSeen: UnixMs
  alike: number | null
}

/** The position in an order after which a page continues. */
type SortPosition = { price: number; number: number }
type SortedQuery = {
  sort: 'price' | 'newest'
  after?: SortPosition | undefined
  priceMax: number
  now: UnixMs
  limit: number
}

/** The read side of search. Every method is bounded and synchronous, and keeps no state between calls. */
export interface ListingSearch {
  /** The number of wanted listings, counted up to a limit. */
  count(wanted: MatchTerms, limit: number): number
  /** Listings met after a number, in the order of meeting. `skeleton` belongs to the typed query. */
  block(wanted: MatchTerms, range: { after: number; limit: number; skeleton: string }): FoundListing[]
  /** In the order of `sort`: the cheapest first, or the latest met first. */
  sorted(wanted: MatchTerms, query: SortedQuery): FoundListing[]
  met(by: { id: string } | { number: number }): MetListing | undefined
  /** Words on the market that begin like `word` and have about its length. */
  wordsLike(word: string, longer: number): string[]
}

const WORDS_LIKE_MAX = 4000
/** Weights: name ≫ tags > description. The marks hold the words of a name. */
const FIT = '-bm25(listing_text, 10, 4, 1, 10)'
const COLUMNS = `
  met.number, met.id, met.seller_id AS sellerId, met.price, met.updated_at AS updatedAt, met.expires_at AS expiresAt,
  met.first_seen AS firstSeen, met.alike`

const COUNT_ALL = 'SELECT count(*) AS count FROM (SELECT 1 FROM met_listings WHERE shown = 1 LIMIT :limit)'
const COUNT = `
  SELECT count(*) AS count FROM (SELECT 1 FROM listing_text WHERE listing_text MATCH :match LIMIT :limit)`
const BLOCK_ALL = `
  SELECT ${COLUMNS}, 0 AS fit, 0 AS named FROM met_listings AS met
  WHERE shown = 1 AND number > :after ORDER BY number LIMIT :limit`
const blockOf = (fit: string) => `
  SELECT ${COLUMNS}, found.fit, met.skeleton = :skeleton AS named
  FROM (
    SELECT rowid AS number, ${fit} AS fit FROM listing_text
    WHERE listing_text MATCH :match AND rowid > :after ORDER BY rowid LIMIT :limit
  ) AS found CROSS JOIN met_listings AS met ON met.number = found.number`
const BLOCK_BY_WORDS = blockOf(FIT)
const BLOCK_BY_MARKS = blockOf('0')
/**
 * Computes the fit of words for listings that contain them. BM25 counts every listing that matches any part of its
 * expression. With a filter in the expression it would take twice as long and rank by the filter.
 */
const FITS = `
  SELECT rowid AS number, ${FIT} AS fit FROM listing_text
  WHERE listing_text MATCH :match AND rowid BETWEEN :first AND :last
    AND +rowid IN (SELECT value FROM json_each(:numbers))`

const USABLE = 'met.price <= :priceMax AND met.expires_at > :now'
const ALL = 'met_listings AS met WHERE met.shown = 1 AND'
const MATCHING = `
  listing_text CROSS JOIN met_listings AS met ON met.number = listing_text.rowid WHERE listing_text MATCH :match AND`
/** Goes through all prices in order and skips listings that do not match. For words that match very many listings. */
const AMONG_MATCHING = `
  met_listings AS met INDEXED BY met_by_price
  WHERE met.shown = 1 AND +met.number IN (SELECT rowid FROM listing_text WHERE listing_text MATCH :match) AND`
const cheapest = (source: string) => `
  SELECT ${COLUMNS}, 0 AS fit, 0 AS named FROM ${source} ${USABLE} AND (met.price, met.number) > (:price, :number)
  ORDER BY met.price, met.number LIMIT :limit`
const newest = (source: string, number: string) => `
  SELECT ${COLUMNS}, 0 AS fit, 0 AS named FROM ${source} ${USABLE} AND ${number} < :number
  ORDER BY ${number} DESC LIMIT :limit`
const CHEAPEST = cheapest(ALL)
const CHEAPEST_OF_FEW = cheapest(MATCHING)
const CHEAPEST_OF_MANY = cheapest(AMONG_MATCHING)
const NEWEST = newest(ALL, 'met.number')
const NEWEST_MATCHING = newest(MATCHING, 'listing_text.rowid')
/** Up to this many matches, sorting them is faster than going through all prices. */
const FEW = 500

const MET = 'SELECT number, id, seller_id AS sellerId, name, first_seen AS firstSeen, alike FROM met_listings WHERE'
const WORDS_LIKE = `
  SELECT word FROM market_words WHERE initial = :initial AND length BETWEEN :from AND :to LIMIT ${WORDS_LIKE_MAX}`

/** The start of each order. */
const FIRST: Record<SortedQuery['sort'], SortPosition> = {
  price: { price: -1, number: 0 },
  newest: { price: 0, number: Number.MAX_SAFE_INTEGER },
}

export function createListingSearch(database: Database): ListingSearch {
  const { all, one } = database

  function countOf(match: string | undefined, limit: number): number {
    type Row = { count: number }
    return (match === undefined ? one<Row>(COUNT_ALL, { limit }) : one<Row>(COUNT, { match, limit }))!.count
  }

  /** Sets how well words fit listings that contain them. `found` is in the order of numbers. */
  function setFits(found: readonly FoundListing[], words: NonNullable<MatchTerms['words']>): void {
    const match = matchExpression({ words })
    if (match === undefined || found.length === 0) return
    const numbers = found.map(({ number }) => number)
    const [first, last] = [BigInt(numbers[0]!), BigInt(numbers.at(-1)!)]
    const rows = all<{ number: number; fit: number }>(FITS, { match, first, last, numbers: JSON.stringify(numbers) })
    const fits = new Map(rows.map(({ number, fit }) => [number, fit]))
    for (const listing of found) listing.fit = fits.get(listing.number) ?? 0
  }

  return {
    count: (wanted, limit) => countOf(matchExpression(wanted), limit),

    block(wanted, { after, limit, skeleton }) {
      const match = matchExpression(wanted)
      if (match === undefined) return all(BLOCK_ALL, { after, limit })
      const { words, marks = [] } = wanted
      const isFiltered = words !== undefined && marks.length > 0
      const sql = words === undefined || isFiltered ? BLOCK_BY_MARKS : BLOCK_BY_WORDS
      // Bound as a bigint: FTS5 ignores a rowid bound as a double, as numbers are.
      const found = all<FoundListing>(sql, { match, after: BigInt(after), limit, skeleton })
      if (isFiltered) setFits(found, words)
      return found
    },

    sorted(wanted, { sort, after = FIRST[sort], priceMax, now, limit }) {
      const match = matchExpression(wanted)
      const values = { priceMax, now, limit, number: BigInt(after.number), ...(match !== undefined && { match }) }
      if (sort === 'newest') return all(match === undefined ? NEWEST : NEWEST_MATCHING, values)
      const priced = { ...values, price: after.price }
      if (match === undefined) return all(CHEAPEST, priced)
      return all(countOf(match, FEW + 1) > FEW ? CHEAPEST_OF_MANY : CHEAPEST_OF_FEW, priced)
    },

    met(by) {
      return 'id' in by ? one<MetListing>(`${MET} id = :id`, by) : one<MetListing>(`${MET} number = :number`, by)
    },

    wordsLike(word, longer) {
      const range = { initial: word.slice(0, 1), from: word.length - longer, to: word.length + longer }
      return all<{ word: string }>(WORDS_LIKE, range).map((row) => row.word)
    },
  }
}
