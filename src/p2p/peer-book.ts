import type { Connection, IdentifyResult, PeerId } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import type { Multiaddr } from '@multiformats/multiaddr'
import type { Node } from './modules.ts'
import { addressesOf } from './multiaddrs.ts'
import { placeIn } from './networks.ts'

export type PeerView = {
  peerId: string
  /** The remote addresses of the connections. An inbound connection shows a port that cannot be dialed. */
  addresses: string[]
  direction: 'inbound' | 'outbound'
  /** Set if every connection leads over a relay. */
  relayed?: true
  latencyMs?: number
  agentVersion?: string
}

type PeerFacts = { agentVersion?: string; protocols?: ReadonlySet<string>; latencyMs?: number }

const AGENT_VERSION_MAX = 128

/** What this node knows about its connected peers. */
export class PeerBook {
  readonly #libp2p: Node
  readonly #known = new Map<string, PeerFacts>()
  readonly #named = new WeakMap<Connection, readonly Multiaddr[]>()

  constructor(libp2p: Node) {
    this.#libp2p = libp2p
    libp2p.addEventListener('peer:identify', (event) => this.#identified(event.detail))
    libp2p.addEventListener('peer:disconnect', (event) => this.#known.delete(event.detail.toString()))
  }

  views(): PeerView[] {
    const connections = Map.groupBy(this.#libp2p.getConnections(), ({ remotePeer }) => remotePeer.toString())
    return Array.from(connections, ([peerId, [first, ...rest]]) => {
      const { agentVersion, latencyMs } = this.#known.get(peerId) ?? {}
      return {
        peerId,
        addresses: [first!, ...rest].map(({ remoteAddr }) => remoteAddr.toString()),
        direction: first!.direction,
        ...([first!, ...rest].every(({ limits }) => limits !== undefined) && { relayed: true as const }),
        ...(latencyMs === undefined ? {} : { latencyMs }),
        ...(agentVersion === undefined ? {} : { agentVersion }),
      }
    })
  }

  /** True if a connected peer speaks a protocol. Undefined until the peer has said what it speaks. */
  speaks(peerId: string, protocol: string): boolean | undefined {
    return this.#known.get(peerId)?.protocols?.has(protocol)
  }

  countSpeaking(protocol: string): number {
    return this.#known.values().reduce((count, { protocols }) => count + (protocols?.has(protocol) ? 1 : 0), 0)
  }

  /** The addresses of the process at the other end: several processes may be one peer. */
  addressesAt(connection: Connection): readonly Multiaddr[] {
    return [connection.remoteAddr, ...(this.#named.get(connection) ?? [])]
  }

  connected(peerId: string): boolean {
    return this.connections(peerId).length > 0
  }

  /** The open connections with a peer that carry any stream, the newest last. */
  connections(peerId: string): Connection[] {
    const open = this.#libp2p.getConnections(peerIdFromString(peerId))
    return open.filter(({ status, limits }) => status === 'open' && limits === undefined)
  }

  /** The open connections with a peer over a relay, the newest last. */
  relayed(peerId: string): Connection[] {
    const open = this.#libp2p.getConnections(peerIdFromString(peerId))
    return open.filter(({ status, limits }) => status === 'open' && limits !== undefined)
  }

  noteLatency(peerId: PeerId, latencyMs: number): void {
    this.#note(peerId, { latencyMs })
  }

  #identified({ peerId, agentVersion, protocols, listenAddrs, connection }: IdentifyResult): void {
    this.#named.set(connection, listenAddrs)
    this.#note(peerId, {
      protocols: new Set(protocols),
      ...(agentVersion === undefined ? {} : { agentVersion: printable(agentVersion) }),
    })
  }

  #note(peer: PeerId, news: PeerFacts): void {
    // Data about a peer may arrive after it has left. Nothing would ever delete it then.
    if (this.#libp2p.getConnections(peer).length === 0) return
    const peerId = peer.toString()
    this.#known.set(peerId, { ...this.#known.get(peerId), ...news })
  }
}

/** The last connection to a given address, or the last of all. With places to avoid, never another than a given address. */
export function connectionTo(
  { peerId, addrs }: { peerId: string; addrs: readonly (string | Multiaddr)[] },
  connections: readonly Connection[],
  avoided: ReadonlySet<string> | undefined,
): Connection | undefined {
  if (connections.length < 2 && avoided === undefined) return connections[0]
  const places = new Set(addressesOf(peerId, addrs).map(placeIn))
  const isGiven = ({ remoteAddr }: Connection) => places.has(placeIn(remoteAddr))
  if (avoided === undefined) return connections.findLast(isGiven) ?? connections.at(-1)
  return connections.findLast((one) => isGiven(one) && !avoided.has(placeIn(one.remoteAddr)))
}

/** Cleans a peer's own name, which may contain anything and is shown on terminals. */
function printable(text: string): string {
  return text.slice(0, AGENT_VERSION_MAX).replaceAll(/[^\x20-\x7e]/g, '?')
}
