import type { NodeStatus } from '../../schema/api.ts'
import { printableLine } from './terminal-text.ts'

export type MarketSearch = NonNullable<NodeStatus['search']>

export function searchText({ tried, fix }: Omit<MarketSearch, 'met'>): string {
  return printableLine(
    `no peers found yet; tried: ${tried.join(', ')}${fix === undefined ? '' : `. What to do: ${fix}`}`,
    600,
  )
}

/** Where peers were met and none of them gave a listing that holds. */
export function metText(met: number): string {
  const peers = met === 1 ? '1 peer answered, but it sent' : `${met} peers answered, but they sent`
  return `${peers} no valid listing. A wrong clock makes listings invalid. Run stoa doctor, and check that the seller is running`
}

/** What to do alone, and where such an address stands. */
export function namePeerText(): string {
  return 'name a peer with --bootstrap <multiaddr> (stoa status of a seller shows its address under Share)'
}
