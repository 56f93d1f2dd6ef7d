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

/** Where peers were met and none of them gave a listing that holds. */
export function metText(met: number): string {
  const peers = met === 1 ? '1 peer was met, and it gave' : `${met} peers were met, and they gave`
  return `${peers} no listing that holds. Listings do not hold where a clock is wrong: see stoa doctor, and whether the seller is up`
}

/** What to do alone, and where such an address stands. */
export function namePeerText(): string {
  return 'name a peer with --bootstrap <multiaddr>, as stoa status of a seller shows it under Share'
}
