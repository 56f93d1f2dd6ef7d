import { MarketError } from '../listings/market-error.ts'
import type { Listing } from '../schema/listing.ts'
import { networkText } from '../schema/network-kind.ts'

type Sold = Pick<Listing, 'name' | 'network' | 'local' | 'buyable'>

/**
 * Returns why this node cannot buy an agent: the agent is sold on another network (D37). Own agents run here, unpaid.
 */
export function foreignNetwork({ name, network, local, buyable }: Sold): string | undefined {
  if (local || buyable) return undefined
  return `${name} is sold on ${networkText(network)}, and this node buys only on its own network`
}

/** @throws MarketError NETWORK_MISMATCH */
export function checkBuyable(listing: Sold): void {
  const reason = foreignNetwork(listing)
  if (reason === undefined) return
  const fix = `to buy it, run a node with --network ${listing.network}`
  throw new MarketError('NETWORK_MISMATCH', `${reason}: nothing was signed; ${fix}`)
}
