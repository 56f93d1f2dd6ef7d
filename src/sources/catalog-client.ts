import { CodedError, reasonOf } from '../lib/errors.ts'
import type { GuardedRequest } from '../lib/guarded-request.ts'
import { readJson } from '../lib/json.ts'
import { cleanText, countOf, fieldOf } from './foreign.ts'

export type Way = 'search' | 'list'
type CatalogAnswer = { items: readonly unknown[]; way: Way }

type CatalogClientOptions = {
  /** `https://…/x402`: without `/discovery`. */
  url: string
  /** May hold a key. */
  headers: Readonly<Record<string, string>>
}

/** Bytes read of one answer. 100 items with schemas have about 300 kB. */
const ANSWER_BYTES_MAX = 2 * 1024 * 1024
const QUERY_LENGTH = 400
const SEARCH_ITEMS = 20
const PAGE_ITEMS = 100
/** A catalog without a search is not read whole: this many pages at most. */
const PAGES_MAX = 2
/** Items read of one answer, however many it has. */
const ITEMS_MAX = PAGE_ITEMS * PAGES_MAX
/** Answers of servers that have no such path. */
const noSuchPath = new Set([404, 405, 501])

/** Asks one catalog, by its search or else by its list. */
export type CatalogClient = {
  /** @throws CodedError SOURCE_FAILED, SOURCE_WITHOUT_LIST; the signal's reason */
  find(query: string, way: Way | undefined, signal: AbortSignal): Promise<CatalogAnswer>
}

export function createCatalogClient({ url, headers }: CatalogClientOptions, request: GuardedRequest): CatalogClient {
  const base = baseOf(url)

  /** @returns undefined if the catalog has no such path */
  async function ask(path: string, query: Record<string, string>, signal: AbortSignal): Promise<unknown> {
    const asked = { method: 'GET' as const, headers: { accept: 'application/json', ...headers }, signal }
    const answer = await request(`${base}${path}?${new URLSearchParams(query)}`, {
      ...{ ...asked, bytesMax: ANSWER_BYTES_MAX },
    }).catch((error: unknown) => {
      signal.throwIfAborted()
      throw failed(cleanText(reasonOf(error), 200), error)
    })
    const { status } = answer
    if (noSuchPath.has(status)) return undefined
    if (status >= 300 && status < 400) throw failed(redirected(answer.header('location'), base))
    if (status !== 200) throw failed(`it answers with status ${status}`)
    const json = readJson(answer.text)
    if (!json.ok) throw failed(`its answer ${json.reason}`)
    const body = json.value
    if (itemsOf(body) === undefined) throw failed('its answer is no catalog of x402: it has no items')
    return body
  }

  async function search(query: string, signal: AbortSignal): Promise<CatalogAnswer | undefined> {
    const body = await ask(
      '/discovery/search',
      { query: query.slice(0, QUERY_LENGTH), limit: `${SEARCH_ITEMS}` },
      signal,
    )
    return body === undefined ? undefined : { items: itemsOf(body)!, way: 'search' }
  }

  async function list(isSearched: boolean, signal: AbortSignal): Promise<CatalogAnswer> {
    const items: unknown[] = []
    for (let page = 0; page < PAGES_MAX; page++) {
      const part = { limit: `${PAGE_ITEMS}`, offset: `${page * PAGE_ITEMS}` }
      // Keep the pages that have arrived, even if a later page fails.
      const body = await ask('/discovery/resources', part, signal).catch((error: unknown) => {
        if (page === 0 || signal.aborted) throw error
        return undefined
      })
      if (body === undefined && page === 0) {
        if (isSearched) throw failed('it has neither /discovery/search nor /discovery/resources')
        throw new CodedError('SOURCE_WITHOUT_LIST', 'it has no /discovery/resources: search it with words')
      }
      const got = itemsOf(body) ?? []
      items.push(...got)
      const total = countOf(fieldOf(fieldOf(body, 'pagination'), 'total')) ?? Number.POSITIVE_INFINITY
      if (got.length < PAGE_ITEMS || items.length >= total) break
    }
    return { items: items.slice(0, ITEMS_MAX), way: 'list' }
  }

  return {
    async find(query, way, signal) {
      const isSearched = query !== '' && way !== 'list'
      const found = isSearched ? await search(query, signal) : undefined
      return found ?? (await list(isSearched, signal))
    },
  }
}

/** Catalogs name their base, their list or their search. */
function baseOf(url: string): string {
  return url.replace(/\/+$/, '').replace(/\/discovery(?:\/(?:resources|search))?$/, '')
}

/** `items` in lists, `resources` in searches. */
function itemsOf(body: unknown): unknown[] | undefined {
  const given = fieldOf(body, 'resources') ?? fieldOf(body, 'items')
  return Array.isArray(given) ? given.slice(0, ITEMS_MAX) : undefined
}

function redirected(location: string | undefined, base: string): string {
  const target = location === undefined ? null : URL.parse(location, base)
  const to = target === null ? 'another address' : cleanText(target.origin, 100)
  return `it sends to ${to}, which is not followed: write the right url into config.yaml`
}

function failed(why: string, cause?: unknown): CodedError {
  return new CodedError('SOURCE_FAILED', why, { cause })
}
