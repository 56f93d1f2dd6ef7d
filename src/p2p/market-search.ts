/** Whether this node has found the market, what it tries, and what the operator can do. */
export type MarketSearch = {
  /** Connected peers that take part in the market. */
  met: number
  /** Each entry is a phrase. */
  tried: string[]
  fix?: string
}

type MarketSearchFacts = {
  met: number
  bootstrap: number
  mdns: boolean
  /** Connected peers of the public DHT. Undefined if this node does not use it. */
  publicPeers: number | undefined
  uptimeMs: number
}

/** Time for joining the public DHT and asking it. */
const SETTLING_MS = 60_000

export function marketSearchOf({ met, bootstrap, mdns, publicPeers, uptimeMs }: MarketSearchFacts): MarketSearch {
  const tried = [
    ...(bootstrap === 0 ? [] : [`${bootstrap} bootstrap ${bootstrap === 1 ? 'peer' : 'peers'}`]),
    'the peers of earlier runs',
    ...(mdns ? ['the local network'] : []),
    ...(publicPeers === undefined ? [] : [`the public DHT (${publicPeers} of its nodes connected)`]),
  ]
  if (met > 0) return { met, tried }
  return { met, tried, fix: fixOf(bootstrap, publicPeers, uptimeMs) }
}

function fixOf(bootstrap: number, publicPeers: number | undefined, uptimeMs: number): string {
  const ask = 'ask a seller for the address that its `stoa status` shows, and start with --bootstrap <address>'
  if (bootstrap > 0) return `check that the bootstrap address is right and that the peer runs; or ${ask}`
  if (publicPeers === undefined) {
    return `${ask}; or let this node use the public DHT: --public-dht, and a listen address that is not loopback alone`
  }
  if (uptimeMs < SETTLING_MS) return 'wait a minute'
  if (publicPeers === 0) {
    return `the public DHT cannot be reached: let this machine ask its name server and dial out on TCP and UDP port 4001; or ${ask}`
  }
  return `the public DHT names no node of the market that can be reached. This node goes on looking; or ${ask}`
}
