import type { NodeStatus } from '../../schema/api.ts'
import { printableLine } from './terminal-text.ts'

export type MarketSearch = NonNullable<NodeStatus['search']>

/** What is tried where nobody of the market was met, and what to do. */
export function searchText({ tried, fix }: Omit<MarketSearch, 'met'>): string {
  return printableLine(
    `nobody found yet; tried: ${tried.join(', ')}${fix === undefined ? '' : `. What to do: ${fix}`}`,
    600,
  )
}
