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
/** Messages of one transmission: each takes a quarter of a millisecond before anybody has looked at it. */
export const MESSAGES_PER_TRANSMISSION_MAX = 64
/** Messages asked for at once: as long as each may be, they fit into one transmission. */
const ASKED_MAX = 32

type Transmission = { messages: { topic: string }[] }
/** Public in libp2p's class, but not in its interface. */
export type Received = {
  handleReceivedRpc(from: PeerId, transmission: Transmission): Promise<void>
  /** What is asked for of the messages that a peer says it has. It sends all of them in one transmission. */
  handleIHave(from: string, said: unknown[]): { messageIDs?: Uint8Array[] }[]
  /** Whether anything is taken from a peer that has misbehaved. */
  acceptFrom(from: string): boolean
  /** By message, who has been asked for it. Whoever does not send it loses score. */
  gossipTracer: { promises: Map<string, Map<string, unknown>> }
}

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
 * An honest neighbor pays for none of that (T28): it is asked for no more than is read, and what is dropped here was delivered.
 *
 * While one transmission waits for its turn, no other of the same peer is read, if the service awaits this.
 */
export function guardGossip(service: Received, deps: GossipGuardDeps): void {
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
    // What is not looked at anyway takes nothing of what the others of its address may hand over.
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
