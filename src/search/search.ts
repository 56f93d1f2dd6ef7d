import { type Clock, isoTime } from '../lib/clock.ts'
import { skeletonOf } from '../lib/text/skeleton.ts'
import type { Catalog } from '../listings/catalog.ts'
import { PRICE_ATOMIC_MAX } from '../schema/amount.ts'
import { PAGE_LISTINGS_MAX, QUERY_LENGTH_MAX } from '../schema/limits.ts'
import type { Listing, Ranking } from '../schema/listing.ts'
import type { Page } from '../schema/page.ts'
import type { AgentQuery, AgentScope } from '../schema/search.ts'
import type { Wanted } from '../store/listing-match.ts'
import type { FoundListing, ListingSearch, MetListing } from '../store/listing-search.ts'
import { type Mark, tagForm } from '../store/listing-text.ts'
import { findByReference, type ReferenceDeps } from './agent-reference.ts'
import { decodeCursor, encodeCursor, type RankPlace, type SearchPlace } from './cursor.ts'
import { whereFound } from './explain.ts'
import { type Reading, readingsOf } from './query-words.ts'
import { explain, type Presence, pointsOf, type Signals, scoreOf } from './ranking.ts'
import { isSearch, keyOf, marksOf } from './search-query.ts'

export type SearchDeps = {
  clock: Clock
  search: ListingSearch
  catalog: Pick<Catalog, 'resolve'>
  /** This node's own peer id. */
  sellerId: string
  /**
   * Whether a seller answers, as far as this node knows. One page asks hundreds of times, so this must be a lookup in
   * memory.
   */
  presence(sellerId: string, listingId: string): Presence | undefined
  /** How well an agent worked for this node, from 0 to 1. */
  measured?(listingId: string): { share: number; detail: string } | undefined
  /** Ids on the market that start with `beginning`. */
  idsBeginning?(beginning: string, max: number): string[]
  /** Agents that only this node knows, because its operator imported them. */
  imported?(query: AgentQuery, scope: AgentScope): Listing[]
  /** What else this node knows about an agent. Added on request (`include`). */
  standing?(listing: Listing): Pick<Listing, 'stats' | 'reputation'>
}

/** Search over the market's listings. */
export interface Search {
  /** @throws CodedError `CURSOR_INVALID` */
  page(query: AgentQuery, scope?: AgentScope): Page<Listing>
  /**
   * Finds one listing by its id, the beginning of its id, its name, or `seller/name`. The result includes what this
   * node knows about the listing.
   *
   * @throws MarketError 'AMBIGUOUS_AGENT' if several fit
   */
  find(id: string, include?: AgentQuery['include']): Listing | undefined
}

/**
 * Listings ranked against each other. A larger result is ranked in blocks of this size, the longest-known listings
 * first.
 */
const BLOCK_MAX = 500
/** Blocks read for one page. A page that needs more ends early, and its cursor continues there. */
const BLOCKS_MAX = 6
/**
 * Least number of listings read at once in an order other than by rank. Some may have left the market since they were
 * indexed.
 */
const SORTED_MIN = 200

type Candidate = { found: FoundListing; fit: number | undefined; score: number }
/** A query with everything derived from it. */
type Task = {
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

export function createSearch(deps: SearchDeps): Search {
  const { clock, search, catalog, sellerId } = deps

  function page(query: AgentQuery, scope: AgentScope = 'all'): Page<Listing> {
    const { cursor, sort = 'rank' } = query
    const key = keyOf(query, scope)
    const place = cursor === undefined ? undefined : decodeCursor(cursor, key)
    const readings = query.q === undefined || query.q.trim() === '' ? undefined : readingsOf(query.q, search)
    const readingPlace =
      readings === undefined ? 0 : place !== undefined && 'reading' in place ? place.reading : readings.first()
    const reading = readingPlace === undefined ? undefined : readings?.at(readingPlace)
    // The query has words, but no reading of them finds anything.
    if (readings !== undefined && reading === undefined) return { items: [], next: undefined }
    const task: Task = {
      query,
      scope,
      limit: query.limit ?? PAGE_LISTINGS_MAX,
      marks: marksOf(query, scope === 'local' ? sellerId : undefined),
      priceMax: Number(query.max_price ?? PRICE_ATOMIC_MAX),
      reading,
      readingPlace: readingPlace ?? 0,
      network: query.network ?? (isSearch(query) ? 'own' : 'any'),
      key,
    }
    return sort === 'rank' ? rankedPage(task, place) : sortedPage(task, sort, place)
  }

  /** Ranks block after block, the longest-known listings first, until the page is full. */
  function rankedPage(task: Task, from: SearchPlace | undefined): Page<Listing> {
    const now = clock.now()
    let place = from?.order === 'rank' ? from : firstPlace(task, now)
    const skeleton = skeletonOf(task.query.q ?? '')
    const sections = sectionsOf(task, place.split, skeleton)
    const items: Listing[] = []
    for (let blocks = 0; place.section < sections.length; blocks++) {
      const next = (at: RankPlace) => ({ items, next: encodeCursor(at, task.key) })
      if (blocks === BLOCKS_MAX) return next(place)
      const range = { after: place.after, limit: BLOCK_MAX, skeleton }
      const block = search.block(sections[place.section]!, range)
      for (const { found, fit, score } of ranked(block, task, place, now)) {
        if (items.length === task.limit) return next(place)
        place = { ...place, last: { score, number: found.number } }
        const listing = shown(found, task)
        if (listing === undefined) continue
        if (task.query.explain !== true) items.push(listing)
        else items.push({ ...listing, ranking: why(listing, signalsOf(found, fit, place.at), task) })
      }
      const { last: _last, ...rest } = place
      const isLastBlock = block.length < BLOCK_MAX
      place = isLastBlock ? { ...rest, section: rest.section + 1, after: 0 } : { ...rest, after: block.at(-1)!.number }
      if (items.length === task.limit && place.section < sections.length) return next(place)
    }
    return { items, next: undefined }
  }

  function firstPlace({ reading, readingPlace, marks }: Task, now: number): RankPlace {
    const split =
      reading !== undefined &&
      search.count({ words: { ...reading, place: 'anywhere' }, marks }, BLOCK_MAX + 1) > BLOCK_MAX
    return { order: 'rank', reading: readingPlace, split, section: 0, after: 0, at: now }
  }

  /** The remaining candidates of a block, the best first. */
  function ranked(block: readonly FoundListing[], task: Task, { at, last }: RankPlace, now: number): Candidate[] {
    let best = 0
    for (const { fit } of block) best = Math.max(best, fit)
    const candidates: Candidate[] = []
    for (const found of block) {
      if (!isUsable(found, task, now)) continue
      const fit = task.reading === undefined ? undefined : found.fit / best
      const score = scoreOf(pointsOf(signalsOf(found, fit, at)))
      if (last === undefined || isAfter(score, found.number, last)) candidates.push({ found, fit, score })
    }
    return candidates.sort((a, b) => b.score - a.score || a.found.number - b.found.number)
  }

  function signalsOf(found: FoundListing, fit: number | undefined, at: number): Signals {
    const measured = deps.measured?.(found.id)
    return {
      fit,
      named: found.named === 1,
      price: found.price,
      presence: deps.presence(found.sellerId, found.id),
      ageMs: at - found.updatedAt,
      measured: measured?.share,
      measuredDetail: measured?.detail,
      isLookAlike: found.alike !== null && found.alike > 0,
    }
  }

  function sortedPage(task: Task, sort: 'price' | 'newest', from: SearchPlace | undefined): Page<Listing> {
    const now = clock.now()
    const wanted: Wanted = { ...wordsOf(task), marks: task.marks }
    const items: Listing[] = []
    let after = from?.order === sort ? from : undefined
    for (let looked = 0; ; ) {
      const next = () => ({ items, next: after === undefined ? undefined : encodeCursor(after, task.key) })
      if (looked >= BLOCKS_MAX * BLOCK_MAX) return next()
      // With words, each read sorts all listings that contain them. An online filter drops many listings, so one large
      // read is cheaper.
      const isSieved = task.query.online !== undefined
      const limit = isSieved ? BLOCKS_MAX * BLOCK_MAX : Math.max(SORTED_MIN, task.limit - items.length + 1)
      const chunk = search.sorted(wanted, { sort, after, priceMax: task.priceMax, now, limit })
      for (const found of chunk) {
        if (items.length === task.limit) return next()
        after = { order: sort, reading: task.readingPlace, price: found.price, number: found.number }
        const listing = isUsable(found, task, now) ? shown(found, task) : undefined
        if (listing !== undefined) items.push(listing)
      }
      looked += chunk.length
      if (chunk.length < limit) return { items, next: undefined }
    }
  }

  /** The checks that need no lookup of the listing. */
  function isUsable(found: FoundListing, { scope, query, priceMax }: Task, now: number): boolean {
    if (found.price > priceMax || found.expiresAt <= now) return false
    if (scope === 'discovered' && found.sellerId === sellerId) return false
    return query.online === undefined || deps.presence(found.sellerId, found.id)?.online === query.online
  }

  /** The current listing. The index may be slightly old and its marks may collide, so every filter is checked again. */
  function shown(found: FoundListing, { query, priceMax, scope, network }: Task): Listing | undefined {
    const listing = catalog.resolve(found.id)
    if (listing === undefined || Number(listing.price) > priceMax) return undefined
    if (query.free !== undefined && query.free !== (listing.price === 0n)) return undefined
    if (query.protocol !== undefined && !listing.protocols.includes(query.protocol)) return undefined
    if ((query.seller_id ?? listing.seller_id) !== listing.seller_id) return undefined
    if (scope === 'local' && !listing.local) return undefined
    if (network === 'own' && !listing.buyable) return undefined
    if (network !== 'own' && network !== 'any' && network !== listing.network) return undefined
    const tags = listing.tags.map(tagForm)
    if (query.tags?.some((tag) => !tags.includes(tagForm(tag))) === true) return undefined
    return known(listing, found, query.include)
  }

  function known(
    listing: Listing,
    { firstSeen, alike }: Pick<MetListing, 'firstSeen' | 'alike'>,
    include: AgentQuery['include'],
  ): Listing {
    const presence = deps.presence(listing.seller_id, listing.id)
    const like = alike === null ? undefined : search.met({ number: alike })
    return {
      ...listing,
      ...(presence !== undefined && { online: presence.online }),
      ...(presence?.latencyMs !== undefined && { latency_ms: presence.latencyMs }),
      first_seen: isoTime(firstSeen),
      ...(include === 'stats' && deps.standing?.(listing)),
      ...(like !== undefined && { look_alike_of: { id: like.id, name: like.name, seller_id: like.sellerId } }),
    }
  }

  /** Places imported listings before all others. */
  function withImported(query: AgentQuery, scope: AgentScope = 'all'): Page<Listing> {
    const limit = query.limit ?? PAGE_LISTINGS_MAX
    const all = deps.imported?.(query, scope) ?? []
    const { cursor, ...rest } = query
    const key = keyOf(query, scope)
    const place = cursor === undefined || all.length === 0 ? undefined : decodeCursor(cursor, key)
    if (cursor !== undefined && place?.order !== 'imported') return page(query, scope)
    const from = place?.order === 'imported' ? place.shown : 0
    const imported = all.slice(from, from + limit)
    if (imported.length === limit) {
      return { items: imported, next: encodeCursor({ order: 'imported', shown: from + limit }, key) }
    }
    const { items, next } = page({ ...rest, limit: limit - imported.length }, scope)
    return { items: [...imported, ...items], next }
  }

  /** Listings whose names look like this name, the longest-known first. No other signal counts. */
  function bearing(name: string): Listing[] {
    const skeleton = skeletonOf(name)
    const block = search.block({ marks: [{ kind: 'name', skeleton }] }, { after: 0, limit: BLOCK_MAX, skeleton })
    const now = clock.now()
    return block.flatMap(({ id, expiresAt }) => (expiresAt > now ? (catalog.resolve(id) ?? []) : []))
  }

  const references: ReferenceDeps = {
    named: (name) => [...(deps.imported?.({ q: name.slice(0, QUERY_LENGTH_MAX) }, 'all') ?? []), ...bearing(name)],
    idsBeginning: (beginning, max) => deps.idsBeginning?.(beginning, max) ?? [],
    resolve: (id) => catalog.resolve(id),
  }

  return {
    page: withImported,
    find(reference, include) {
      const listing = catalog.resolve(reference) ?? findByReference(reference, references)
      const met = listing === undefined ? undefined : search.met({ id: listing.id })
      if (listing === undefined || met !== undefined) return listing && known(listing, met!, include)
      return include === 'stats' ? { ...listing, ...deps.standing?.(listing) } : listing
    },
  }
}

function why(listing: Listing, signals: Signals, { reading }: Task): Ranking {
  return explain(signals, reading === undefined ? '' : whereFound(listing, reading, signals.named))
}

function isAfter(score: number, number: number, last: { score: number; number: number }): boolean {
  return score < last.score || (score === last.score && number > last.number)
}

function wordsOf({ reading }: Task): Pick<Wanted, 'words'> {
  return reading === undefined ? {} : { words: { ...reading, place: 'anywhere' } }
}

/**
 * The sections of a search, in order. If words find more than one block, matches in names go first. These are names
 * equal to the query, then names that contain all words. The rest follows.
 */
function sectionsOf(task: Task, split: boolean, skeleton: string): Wanted[] {
  const { reading, marks } = task
  const anywhere: Wanted = { ...wordsOf(task), marks }
  if (reading === undefined || !split) return [anywhere]
  const named: Wanted = { marks: [...marks, { kind: 'name', skeleton }] }
  const inName: Wanted = { words: { ...reading, place: 'name' } }
  return [named, { ...inName, marks, except: [named] }, { ...anywhere, except: [named, inName] }]
}
