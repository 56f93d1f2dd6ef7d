import { BoundedMap } from '../lib/bounded-map.ts'
import { type Clock, isoTime, monotonicOf, type UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import { foldText, wordsOf } from '../lib/text/fold.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { orAborted } from '../lib/wait.ts'
import type { Asset } from '../payments/assets.ts'
import type { Source as SourceRecord } from '../schema/source.ts'
import type { CatalogClient, Way } from './catalog-client.ts'
import { type CatalogEntry, readItem } from './catalog-item.ts'

type SourceOptions = { name: string; url: string; allowPrivate: boolean }
type SourceDeps = { client: CatalogClient; clock: Clock; asset: Asset; stopping: AbortSignal }

/** Entries of one catalog for one query. */
type Kept = { entries: readonly CatalogEntry[]; invalid: number; at: UnixMs }
export type SourceAnswer = {
  entries: readonly CatalogEntry[]
  invalid: number
  /** Age of an answer that was kept. */
  ageMs: number | undefined
  error: string | undefined
}

/** A catalog that this node searches on demand. It is never read whole. */
export type Source = {
  readonly name: string
  readonly allowPrivate: boolean
  /** Does not throw for a catalog that fails. @throws the signal's reason */
  find(query: string, signal: AbortSignal): Promise<SourceAnswer>
  /** Asks the catalog, even if an answer is kept. */
  test(signal: AbortSignal): Promise<SourceRecord>
  view(): SourceRecord
}

/** How long a catalog may take. */
const ANSWER_MS = 6_000
const FRESH_MS = 10 * 60_000
/** How long a kept answer stands in for a catalog that fails. */
const STALE_MS = 60 * 60_000
/** Queries of one catalog that are kept, and requests under way. */
const QUERIES_MAX = 16
const FLIGHTS_MAX = 8
const pace = { burst: 20, perSecond: 0.5, keysMax: 1 }
const PAUSE_MS = 5_000
const PAUSE_MAX_MS = 5 * 60_000
/** The query that tests a catalog which has a search and no list. */
const ANY_WORD = 'data'
/** A catalog without a search is asked for one again after this time. */
const LIST_ONLY_MS = 60 * 60_000

export function createSource({ name, url, allowPrivate }: SourceOptions, deps: SourceDeps): Source {
  const { client, clock, asset, stopping } = deps
  const kept = new BoundedMap<string, Kept>(QUERIES_MAX)
  const flights = new Map<string, Promise<Kept>>()
  const buckets = new TokenBuckets(pace)
  let way: { is: Way; at: UnixMs } | undefined
  let last: { at: UnixMs; latencyMs: number; entries?: number; error?: string } | undefined
  let failures = 0
  let failed = 0
  let answeredAt: UnixMs | undefined
  let pausedUntil = 0

  const now = () => monotonicOf(clock)
  /** A catalog without a search gives the same list for every query. */
  const isListed = () => way?.is === 'list' && now() - way.at < LIST_ONLY_MS
  const keyOf = (query: string) => (query === '' || isListed() ? '' : query)

  async function ask(query: string): Promise<Kept> {
    const startedAt = now()
    const signal = AbortSignal.any([AbortSignal.timeout(ANSWER_MS), stopping])
    try {
      const { items, way: used } = await client.find(query, isListed() ? 'list' : undefined, signal)
      if (query !== '' && !(isListed() && used === 'list')) way = { is: used, at: startedAt }
      const read = items.flatMap((item) => readItem(item, asset, allowPrivate) ?? [])
      const answer = { entries: read, invalid: items.length - read.length, at: now() }
      kept.set(used === 'list' ? '' : query, answer)
      ;[failures, pausedUntil] = [0, 0]
      answeredAt = clock.now()
      last = { at: answeredAt, latencyMs: Math.round(now() - startedAt), entries: read.length }
      return answer
    } catch (error) {
      const why = signal.aborted ? `it did not answer in ${ANSWER_MS / 1000} s` : reasonOf(error)
      failed++
      pausedUntil = now() + Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(failures++, 10))
      last = { at: clock.now(), latencyMs: Math.round(now() - startedAt), error: why }
      throw new Error(why, { cause: error })
    }
  }

  /** Requests for the same query share one answer. It comes even if the first of them has left. */
  function fly(query: string): Promise<Kept> {
    const key = keyOf(query)
    const flying = flights.get(key)
    if (flying !== undefined) return flying
    if (flights.size >= FLIGHTS_MAX || !buckets.take(name, 1, now())) {
      return Promise.reject(new Error('it was asked too often: ask again in some seconds'))
    }
    const flight = ask(query).finally(() => flights.delete(key))
    flights.set(key, flight)
    return flight
  }

  function view(): SourceRecord {
    return {
      ...{ name, url: new URL(url).origin, allow_private: allowPrivate },
      state: last === undefined ? 'unasked' : last.error === undefined ? 'ok' : 'failed',
      ...(way !== undefined && { way: way.is }),
      ...(last !== undefined && { asked_at: isoTime(last.at), latency_ms: last.latencyMs }),
      ...(last?.entries !== undefined && { entries: last.entries }),
      ...(answeredAt !== undefined && { answered_at: isoTime(answeredAt) }),
      failures: failed,
      ...(last?.error !== undefined && { error: last.error }),
    }
  }

  return {
    name,
    allowPrivate,
    async find(given, signal) {
      const query = given.trim().replace(/\s+/g, ' ')
      const known = kept.get(keyOf(query))
      const ageMs = known && now() - known.at
      const fitting = (answer: Kept) => (keyOf(query) === '' ? matching(answer.entries, query) : answer.entries)
      const old = (error?: string): SourceAnswer | undefined =>
        known && { entries: fitting(known), invalid: known.invalid, ageMs, error }
      if (known !== undefined && ageMs! < FRESH_MS) return old()!
      const give = (error: string): SourceAnswer =>
        (known !== undefined && ageMs! < STALE_MS && old(error)) || { entries: [], invalid: 0, ageMs: undefined, error }
      if (now() < pausedUntil) {
        return give(`${last?.error ?? 'it failed'} (asked again in ${Math.ceil((pausedUntil - now()) / 1000)} s)`)
      }
      const flight = fly(query)
      try {
        const answer = await orAborted(flight, signal)
        return { entries: fitting(answer), invalid: answer.invalid, ageMs: undefined, error: undefined }
      } catch (error) {
        signal.throwIfAborted()
        return give(reasonOf(error))
      }
    },
    async test(signal) {
      // The record of the source says how it went.
      const asked = fly('').catch((error: unknown) => {
        const { cause } = error as { cause?: { code?: unknown } }
        if (cause?.code !== 'SOURCE_WITHOUT_LIST') throw error
        return fly(ANY_WORD)
      })
      await orAborted(asked, signal).catch((error: unknown) => {
        signal.throwIfAborted()
        last = { at: clock.now(), latencyMs: 0, ...last, error: reasonOf(error) }
      })
      return view()
    },
    view,
  }
}

/** Entries of a list that have a word of the query. */
function matching(entries: readonly CatalogEntry[], query: string): readonly CatalogEntry[] {
  return query === '' ? entries : entries.filter((entry) => fitOf(entry, query) > 0)
}

/** Share of the words of the query that an entry has, from 0 to 1. Undefined words of a query fit everything. */
export function fitOf({ name = '', description = '', tags, url }: CatalogEntry, query: string): number {
  const sought = new Set(wordsOf(foldText(query)).filter((word) => word.length > 2))
  if (sought.size === 0) return 1
  const text = foldText([name, description, ...tags, url].join(' '))
  return [...sought].filter((word) => text.includes(word)).length / sought.size
}
