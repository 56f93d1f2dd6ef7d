/*
 * Upstream: not reported. Seen in @libp2p/gossipsub 17.1.1.
 * Goes when: the library offers a check before it verifies the signatures of a transmission.
 */

import type { PeerId } from '@libp2p/interface'
import type { Pace } from '../../lib/pace.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'

/**
 * Messages one peer may send. The burst is enough for a whole market. The rate is that of the changes in a large
 * market.
 */
const PEER_BURST = 1024
const PEER_PER_SECOND = 64
/** The same for all peers at one address together. */
const SITE_BURST = 4 * PEER_BURST
const SITE_PER_SECOND = 4 * PEER_PER_SECOND
const KEYS_MAX = 4096
/** Messages in one transmission. libp2p spends 0.25 ms on each before any check. */
export const MESSAGES_PER_TRANSMISSION_MAX = 64
/** Messages asked for at once. Even the longest fit into one transmission. */
const ASKED_MAX = 32

type Transmission = { messages: { topic: string }[] }
/** Public in libp2p's class, but not in its interface. */
export type GossipInternals = {
  handleReceivedRpc(from: PeerId, transmission: Transmission): Promise<void>
  /** Returns which messages to ask for, of those a peer says it has. The peer sends all of them in one transmission. */
  handleIHave(from: string, said: unknown[]): { messageIDs?: Uint8Array[] }[]
  /** False if nothing is accepted from a peer because it misbehaved. */
  acceptFrom(from: string): boolean
  /** For each message, the peers that were asked for it. A peer that does not send it loses score. */
  gossipTracer: { promises: Map<string, Map<string, unknown>> }
}

type GossipGuardDeps = {
  pace: Pace
  /** True if this node listens to the topic. */
  isWanted(topic: string): boolean
  /** The site that a peer connects from. */
  siteOf(peer: PeerId): string | undefined
}

/**
 * Limits gossip before libp2p reads it. libp2p checks the signature of every message first, no matter how many a peer
 * sends (T7, T29). The guard accepts what one peer and one address may send, and drops the rest unread. It also limits
 * how much of the event loop this work takes.
 *
 * The guard does not harm an honest neighbor (T28). The neighbor is asked for no more messages than are read, and
 * messages dropped here count as delivered.
 *
 * While a transmission waits for its turn, no other transmission of the same peer is read, if the service awaits this
 * function.
 */
export function guardGossip(service: GossipInternals, deps: GossipGuardDeps): void {
  const peers = new TokenBuckets({ burst: PEER_BURST, perSecond: PEER_PER_SECOND, keysMax: KEYS_MAX })
  const sites = new TokenBuckets({ burst: SITE_BURST, perSecond: SITE_PER_SECOND, keysMax: KEYS_MAX })
  const handle = service.handleReceivedRpc.bind(service)
  const asked = service.handleIHave.bind(service)

  service.handleIHave = (from, said) => {
    const [wanted] = asked(from, said)
    const ids = wanted?.messageIDs?.slice(0, roomOf(from)) ?? []
    return ids.length === 0 ? [] : [{ messageIDs: ids }]
  }

  function roomOf(peerId: string): number {
    let room = ASKED_MAX
    while (room > 0 && !peers.has(peerId, room, performance.now())) room >>= 1
    return room
  }

  function forgive(peerId: string): void {
    for (const byPeer of service.gossipTracer.promises.values()) byPeer.delete(peerId)
  }

  service.handleReceivedRpc = async (from, transmission) => {
    const wanted = transmission.messages.filter(({ topic }) => deps.isWanted(topic))
    transmission.messages = []
    const peerId = from.toString()
    // Messages that nobody reads must not use up what the other peers at the same address may send.
    if (wanted.length === 0 || !service.acceptFrom(peerId)) return handle(from, transmission)
    const site = deps.siteOf(from)
    const now = performance.now()
    const count = wanted.length
    if (!peers.take(peerId, count, now) || (site !== undefined && !sites.take(site, count, now))) {
      forgive(peerId)
      return handle(from, transmission)
    }
    transmission.messages = wanted
    return deps.pace.run(site ?? peerId, () => handle(from, transmission))
  }
}
