import { skeletonOf } from '../lib/text/skeleton.ts'
import type { Imports } from '../listings/imports.ts'
import type { Replica } from '../listings/replica.ts'
import { PAGE_LISTINGS_MAX, QUERY_LENGTH_MAX } from '../schema/limits.ts'
import type { Listing } from '../schema/listing.ts'
import type { Page } from '../schema/page.ts'
import type { AgentQuery, AgentScope } from '../schema/search.ts'
import { findByReference, type ReferenceDeps } from './agent-reference.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { BLOCK_MAX, described, type PageDeps, rankedPage, sortedPage } from './pages.ts'
import { keyOf, taskOf } from './search-query.ts'

export type SearchDeps = PageDeps & {
  replica?: Pick<Replica, 'idsBeginning'>
  /** Agents that only this node knows, because its operator imported them. */
  imports?: Pick<Imports, 'matching'>
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
  /** Listings whose names look like this name, the longest-known first. No other signal counts. */
  bearing(name: string): Listing[]
}

export function createSearch(deps: SearchDeps): Search {
  const { clock, search, catalog, imports } = deps

  /** A page of the market's listings. Imported listings come before all others. */
  function page(query: AgentQuery, scope: AgentScope = 'all'): Page<Listing> {
    const limit = query.limit ?? PAGE_LISTINGS_MAX
    const all = imports?.matching(query, scope) ?? []
    const { cursor, ...rest } = query
    const key = keyOf(query, scope)
    const place = cursor === undefined || all.length === 0 ? undefined : decodeCursor(cursor, key)
    if (cursor !== undefined && place?.order !== 'imported') return replicatedPage(query, scope)
    const from = place?.order === 'imported' ? place.shown : 0
    const imported = all.slice(from, from + limit)
    if (imported.length === limit) {
      return { items: imported, next: encodeCursor({ order: 'imported', shown: from + limit }, key) }
    }
    const { items, next } = replicatedPage({ ...rest, limit: limit - imported.length }, scope)
    return { items: [...imported, ...items], next }
  }

  function replicatedPage(query: AgentQuery, scope: AgentScope): Page<Listing> {
    const { cursor, sort = 'rank' } = query
    const place = cursor === undefined ? undefined : decodeCursor(cursor, keyOf(query, scope))
    const task = taskOf(query, scope, place, deps)
    // The query has words, but no reading of them finds anything.
    if (task === undefined) return { items: [], next: undefined }
    return sort === 'rank' ? rankedPage(task, place, deps) : sortedPage(task, sort, place, deps)
  }

  function bearing(name: string): Listing[] {
    const skeleton = skeletonOf(name)
    const block = search.block({ marks: [{ kind: 'name', skeleton }] }, { after: 0, limit: BLOCK_MAX, skeleton })
    const now = clock.now()
    return block.flatMap(({ id, expiresAt }) => (expiresAt > now ? (catalog.resolve(id) ?? []) : []))
  }

  const references: ReferenceDeps = {
    named: (name) => [...(imports?.matching({ q: name.slice(0, QUERY_LENGTH_MAX) }, 'all') ?? []), ...bearing(name)],
    idsBeginning: (beginning, max) => deps.replica?.idsBeginning(beginning, max) ?? [],
    resolve: (id) => catalog.resolve(id),
  }

  return {
    page,
    bearing,
    find(reference, include) {
      const listing = catalog.resolve(reference) ?? findByReference(reference, references)
      const met = listing === undefined ? undefined : search.met({ id: listing.id })
      if (listing === undefined || met !== undefined) return listing && described(listing, met!, include, deps)
      return include === 'stats' ? { ...listing, ...deps.standing?.(listing) } : listing
    },
  }
}
