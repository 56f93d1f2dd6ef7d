import type { PeerId } from '@libp2p/interface'
import type { Pace } from '../lib/pace.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'

/** Messages that one peer may hand over: a market's worth at once, then as many a second as a large market has changes. */
const PEER_BURST = 1024
const PEER_PER_SECOND = 64
/** Of all peers at one address together. */
const SITE_BURST = 4 * PEER_BURST
const SITE_PER_SECOND = 4 * PEER_PER_SECOND
const KEYS_MAX = 4096

type Transmission = { messages: { topic: string }[] }
/** Public in libp2p's class, but not in its interface. */
export type Received = { handleReceivedRpc(from: PeerId, transmission: Transmission): Promise<void> }

export type GossipGuardDeps = {
  pace: Pace
  /** Whether anybody here listens to a topic. */
  isWanted(topic: string): boolean
  /** Where a peer connects from. */
  siteOf(peer: PeerId): string | undefined
}

/**
 * Stands before all that libp2p does with a transmission, since it checks the signature of every message first, whoever sends
 * how many (T7, T29): takes what one peer and one address may hand over, drops the rest unread, and has it done at a pace.
 *
 * While one transmission waits for its turn, no other of the same peer is read, if the service awaits this.
 */
export function guardGossip(service: Received, deps: GossipGuardDeps): void {
  const peers = new TokenBuckets({ burst: PEER_BURST, perSecond: PEER_PER_SECOND, keysMax: KEYS_MAX })
  const sites = new TokenBuckets({ burst: SITE_BURST, perSecond: SITE_PER_SECOND, keysMax: KEYS_MAX })
  const handle = service.handleReceivedRpc.bind(service)

  service.handleReceivedRpc = async (from, transmission) => {
    const wanted = transmission.messages.filter(({ topic }) => deps.isWanted(topic))
    transmission.messages = []
    if (wanted.length === 0) return handle(from, transmission)
    const peerId = from.toString()
    const site = deps.siteOf(from)
    const now = performance.now()
    const count = wanted.length
    if (!peers.take(peerId, count, now) || (site !== undefined && !sites.take(site, count, now))) {
      return handle(from, transmission)
    }
    transmission.messages = wanted
    return deps.pace.run(site ?? peerId, () => handle(from, transmission))
  }
}
