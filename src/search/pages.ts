import { type Clock, isoTime } from '../lib/clock.ts'
import { skeletonOf } from '../lib/text/skeleton.ts'
import type { Catalog } from '../listings/catalog.ts'
import type { Listing, Ranking } from '../schema/listing.ts'
import type { Page } from '../schema/page.ts'
import type { AgentQuery } from '../schema/search.ts'
import type { MatchTerms } from '../store/listing-match.ts'
import type { FoundListing, ListingSearch, MetListing } from '../store/listing-search.ts'
import { tagForm } from '../store/listing-text.ts'
import { encodeCursor, type RankPlace, type SearchPlace } from './cursor.ts'
import type { Presences } from './presence.ts'
import { explain, pointsOf, type Signals, scoreOf, whereFound } from './ranking.ts'
import type { SearchTask } from './search-query.ts'

export type PageDeps = {
  clock: Clock
  search: ListingSearch
  catalog: Pick<Catalog, 'resolve'>
  sellerId: string
  /** Whether a seller answers, as far as this node knows. One page asks hundreds of times. */
  presences: Pick<Presences, 'of'>
  /** How well an agent worked for this node, from 0 to 1. */
  measured?(listingId: string): { share: number; detail: string } | undefined
  /** What else this node knows about an agent. Added on request (`include`). */
  standing?(listing: Listing): Pick<Listing, 'stats' | 'reputation'>
}

/**
 * Listings ranked against each other. A larger result is ranked in blocks of this size, the longest-known listings
 * first.
 */
export const BLOCK_MAX = 500
/** Blocks read for one page. A page that needs more ends early, and its cursor continues there. */
const BLOCKS_MAX = 6
/**
 * Least number of listings read at once in an order other than by rank. Some may have left the market since they were
 * indexed.
 */
const SORTED_MIN = 200

type Candidate = { found: FoundListing; fit: number | undefined; score: number }

/** Ranks block after block, the longest-known listings first, until the page is full. */
export function rankedPage(task: SearchTask, from: SearchPlace | undefined, deps: PageDeps): Page<Listing> {
  const now = deps.clock.now()
  let place = from?.order === 'rank' ? from : firstPlace(task, now, deps)
  const skeleton = skeletonOf(task.query.q ?? '')
  const sections = sectionsOf(task, place.split, skeleton)
  const items: Listing[] = []
  for (let blocks = 0; place.section < sections.length; blocks++) {
    const next = (at: RankPlace) => ({ items, next: encodeCursor(at, task.key) })
    if (blocks === BLOCKS_MAX) return next(place)
    const range = { after: place.after, limit: BLOCK_MAX, skeleton }
    const block = deps.search.block(sections[place.section]!, range)
    for (const { found, fit, score } of rankBlock(block, task, place, deps)) {
      if (items.length === task.limit) return next(place)
      place = { ...place, last: { score, number: found.number } }
      const listing = shown(found, task, deps)
      if (listing === undefined) continue
      if (task.query.explain !== true) items.push(listing)
      else items.push({ ...listing, ranking: why(listing, signalsOf(found, fit, place.at, deps), task) })
    }
    const { last: _last, ...rest } = place
    const isLastBlock = block.length < BLOCK_MAX
    place = isLastBlock ? { ...rest, section: rest.section + 1, after: 0 } : { ...rest, after: block.at(-1)!.number }
    if (items.length === task.limit && place.section < sections.length) return next(place)
  }
  return { items, next: undefined }
}

function firstPlace({ reading, readingPlace, marks }: SearchTask, now: number, { search }: PageDeps): RankPlace {
  const split =
    reading !== undefined &&
    search.count({ words: { ...reading, place: 'anywhere' }, marks }, BLOCK_MAX + 1) > BLOCK_MAX
  return { order: 'rank', reading: readingPlace, split, section: 0, after: 0, at: now }
}

/**
 * The sections of a search, in order. If words find more than one block, matches in names go first. These are names
 * equal to the query, then names that contain all words. The rest follows.
 */
function sectionsOf(task: SearchTask, split: boolean, skeleton: string): MatchTerms[] {
  const { reading, marks } = task
  const anywhere: MatchTerms = { ...wordsOf(task), marks }
  if (reading === undefined || !split) return [anywhere]
  const named: MatchTerms = { marks: [...marks, { kind: 'name', skeleton }] }
  const inName: MatchTerms = { words: { ...reading, place: 'name' } }
  return [named, { ...inName, marks, except: [named] }, { ...anywhere, except: [named, inName] }]
}

function wordsOf({ reading }: SearchTask): Pick<MatchTerms, 'words'> {
  return reading === undefined ? {} : { words: { ...reading, place: 'anywhere' } }
}

/** The remaining candidates of a block, the best first. */
function rankBlock(
  block: readonly FoundListing[],
  task: SearchTask,
  { at, last }: RankPlace,
  deps: PageDeps,
): Candidate[] {
  const now = deps.clock.now()
  let best = 0
  for (const { fit } of block) best = Math.max(best, fit)
  const candidates: Candidate[] = []
  for (const found of block) {
    if (!isUsable(found, task, now, deps)) continue
    const fit = task.reading === undefined ? undefined : found.fit / best
    const score = scoreOf(pointsOf(signalsOf(found, fit, at, deps)))
    if (last === undefined || isAfter(score, found.number, last)) candidates.push({ found, fit, score })
  }
  return candidates.sort((a, b) => b.score - a.score || a.found.number - b.found.number)
}

function isAfter(score: number, number: number, last: { score: number; number: number }): boolean {
  return score < last.score || (score === last.score && number > last.number)
}

function signalsOf(found: FoundListing, fit: number | undefined, at: number, deps: PageDeps): Signals {
  const measured = deps.measured?.(found.id)
  return {
    fit,
    named: found.named === 1,
    price: found.price,
    presence: deps.presences.of(found.sellerId, found.id),
    ageMs: at - found.updatedAt,
    measured: measured?.share,
    measuredDetail: measured?.detail,
    isLookAlike: found.alike !== null && found.alike > 0,
  }
}

function why(listing: Listing, signals: Signals, { reading }: SearchTask): Ranking {
  return explain(signals, reading === undefined ? '' : whereFound(listing, reading, signals.named))
}

export function sortedPage(
  task: SearchTask,
  sort: 'price' | 'newest',
  from: SearchPlace | undefined,
  deps: PageDeps,
): Page<Listing> {
  const now = deps.clock.now()
  const terms: MatchTerms = { ...wordsOf(task), marks: task.marks }
  const items: Listing[] = []
  let after = from?.order === sort ? from : undefined
  for (let looked = 0; ; ) {
    const next = () => ({ items, next: after === undefined ? undefined : encodeCursor(after, task.key) })
    if (looked >= BLOCKS_MAX * BLOCK_MAX) return next()
    // With words, each read sorts all listings that contain them. An online filter drops many listings, so one large
    // read is cheaper.
    const isSieved = task.query.online !== undefined
    const limit = isSieved ? BLOCKS_MAX * BLOCK_MAX : Math.max(SORTED_MIN, task.limit - items.length + 1)
    const chunk = deps.search.sorted(terms, { sort, after, priceMax: task.priceMax, now, limit })
    for (const found of chunk) {
      if (items.length === task.limit) return next()
      after = { order: sort, reading: task.readingPlace, price: found.price, number: found.number }
      const listing = isUsable(found, task, now, deps) ? shown(found, task, deps) : undefined
      if (listing !== undefined) items.push(listing)
    }
    looked += chunk.length
    if (chunk.length < limit) return { items, next: undefined }
  }
}

/** The checks that need no lookup of the listing. */
function isUsable(found: FoundListing, { scope, query, priceMax }: SearchTask, now: number, deps: PageDeps): boolean {
  if (found.price > priceMax || found.expiresAt <= now) return false
  if (scope === 'discovered' && found.sellerId === deps.sellerId) return false
  return query.online === undefined || deps.presences.of(found.sellerId, found.id)?.online === query.online
}

/** The current listing. The index may be slightly old and its marks may collide, so every filter is checked again. */
function shown(
  found: FoundListing,
  { query, priceMax, scope, network }: SearchTask,
  deps: PageDeps,
): Listing | undefined {
  const listing = deps.catalog.resolve(found.id)
  if (listing === undefined || Number(listing.price) > priceMax) return undefined
  if (query.free !== undefined && query.free !== (listing.price === 0n)) return undefined
  if (query.protocol !== undefined && !listing.protocols.includes(query.protocol)) return undefined
  if ((query.seller_id ?? listing.seller_id) !== listing.seller_id) return undefined
  if (scope === 'local' && !listing.local) return undefined
  if (network === 'own' && !listing.buyable) return undefined
  if (network !== 'own' && network !== 'any' && network !== listing.network) return undefined
  const tags = listing.tags.map(tagForm)
  if (query.tags?.some((tag) => !tags.includes(tagForm(tag))) === true) return undefined
  return described(listing, found, query.include, deps)
}

/** The listing with what this node knows about its seller and itself. */
export function described(
  listing: Listing,
  { firstSeen, alike }: Pick<MetListing, 'firstSeen' | 'alike'>,
  include: AgentQuery['include'],
  { presences, search, standing }: PageDeps,
): Listing {
  const presence = presences.of(listing.seller_id, listing.id)
  const like = alike === null ? undefined : search.met({ number: alike })
  return {
    ...listing,
    ...(presence !== undefined && { online: presence.online }),
    ...(presence?.latencyMs !== undefined && { latency_ms: presence.latencyMs }),
    first_seen: isoTime(firstSeen),
    ...(include === 'stats' && standing?.(listing)),
    ...(like !== undefined && { look_alike_of: { id: like.id, name: like.name, seller_id: like.sellerId } }),
  }
}
