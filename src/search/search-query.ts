import type { AgentQuery, AgentScope } from '../schema/search.ts'
import type { Mark } from '../store/listing-text.ts'

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
export function isSearch({
  cursor: _c,
  sort: _s,
  limit: _l,
  explain: _e,
  include: _i,
  ...deciding
}: AgentQuery): boolean {
  return Object.values(deciding).some((value) => value !== undefined)
}

export function marksOf({ tags = [], free, protocol, seller_id }: AgentQuery, ownSellerId: string | undefined): Mark[] {
  return [
    ...tags.map((tag) => ({ kind: 'tag', tag }) as const),
    ...(free === undefined ? [] : [{ kind: free ? 'free' : 'paid' } as const]),
    ...(protocol === undefined ? [] : [{ kind: 'protocol', protocol } as const]),
    ...[seller_id, ownSellerId].flatMap((id) => (id === undefined ? [] : [{ kind: 'seller', sellerId: id } as const])),
  ]
}
