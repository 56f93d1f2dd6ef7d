import type { Connection, IdentifyResult, PeerId } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import type { Node } from './modules.ts'

export type PeerView = {
  peerId: string
  /** Where the connections lead: an inbound one to a port that cannot be dialled. */
  addresses: string[]
  direction: 'inbound' | 'outbound'
  /** Every connection leads over a relay. */
  relayed?: true
  latencyMs?: number
  agentVersion?: string
}

type Known = { agentVersion?: string; protocols?: ReadonlySet<string>; latencyMs?: number }

const AGENT_VERSION_MAX = 128

/** What this node knows of the peers it is connected to. */
export class PeerBook {
  readonly #libp2p: Node
  readonly #known = new Map<string, Known>()

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

  /** Whether a connected peer speaks a protocol; undefined until it has said what it speaks. */
  speaks(peerId: string, protocol: string): boolean | undefined {
    return this.#known.get(peerId)?.protocols?.has(protocol)
  }

  /** How many connected peers are known to speak a protocol. */
  countSpeaking(protocol: string): number {
    return this.#known.values().reduce((count, { protocols }) => count + (protocols?.has(protocol) ? 1 : 0), 0)
  }

  connected(peerId: string): boolean {
    return this.connections(peerId).length > 0
  }

  /** The open connections with a peer that carry any stream, newest last. */
  connections(peerId: string): Connection[] {
    const open = this.#libp2p.getConnections(peerIdFromString(peerId))
    return open.filter(({ status, limits }) => status === 'open' && limits === undefined)
  }

  /** The open connections with a peer that lead over a relay, newest last. */
  relayed(peerId: string): Connection[] {
    const open = this.#libp2p.getConnections(peerIdFromString(peerId))
    return open.filter(({ status, limits }) => status === 'open' && limits !== undefined)
  }

  noteLatency(peerId: PeerId, latencyMs: number): void {
    this.#note(peerId, { latencyMs })
  }

  #identified({ peerId, agentVersion, protocols }: IdentifyResult): void {
    this.#note(peerId, {
      protocols: new Set(protocols),
      ...(agentVersion === undefined ? {} : { agentVersion: printable(agentVersion) }),
    })
  }

  #note(peer: PeerId, news: Known): void {
    // News of a peer can come in after it has left: then nothing would ever delete it.
    if (this.#libp2p.getConnections(peer).length === 0) return
    const peerId = peer.toString()
    this.#known.set(peerId, { ...this.#known.get(peerId), ...news })
  }
}

/** A peer may call itself anything; it is shown on terminals. */
function printable(text: string): string {
  return text.slice(0, AGENT_VERSION_MAX).replaceAll(/[^\x20-\x7e]/g, '?')
}
