import type { NodeStatus } from '../../schema/api.ts'
import { printableLine } from './terminal-text.ts'

export type MarketSearch = NonNullable<NodeStatus['search']>

/** What the node has tried to find peers, and what to do. */
export function searchText({ tried, fix }: Omit<MarketSearch, 'met'>): string {
  return printableLine(
    `nobody found yet; tried: ${tried.join(', ')}${fix === undefined ? '' : `. What to do: ${fix}`}`,
    600,
  )
}
