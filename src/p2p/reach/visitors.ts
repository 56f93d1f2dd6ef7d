import type { Connection } from '@libp2p/interface'
import { isPrivate } from '@libp2p/utils'
import { BoundedMap } from '../../lib/bounded-map.ts'
import type { Node } from '../modules.ts'
import { hostIn, networkOf } from '../networks.ts'

/** Networks from which strangers must have connected recently before a node gives up its relays. */
const NETWORKS_WANTED = 2
/** A visit counts for this long. Without enough visits the node uses relays again. */
const LATELY_MS = 2 * 60 * 60 * 1000
const NETWORKS_KEPT_MAX = 256

type VisitorsDeps = {
  libp2p: Pick<Node, 'addEventListener' | 'getConnections'>
  /** True if the operator named the peer. Such a peer is not a stranger. */
  isTrusted(peerId: string): boolean
  now?: () => number
}

/**
 * Tells whether strangers connect to this node at its own addresses: directly, from the internet, and not through a
 * punched hole (D52). Peers may fake the proof of an address. If nobody connects, the proof was wrong.
 */
export class Visitors {
  readonly #deps: VisitorsDeps
  readonly #now: () => number
  /** By network: when a stranger last connected from there. */
  readonly #cameAt = new BoundedMap<string, number>(NETWORKS_KEPT_MAX)

  constructor(deps: VisitorsDeps) {
    this.#deps = deps
    this.#now = deps.now ?? (() => performance.now())
    deps.libp2p.addEventListener('connection:open', ({ detail }) => this.#opened(detail))
  }

  /** True if strangers of several networks connected recently. */
  come(): boolean {
    const from = this.#now() - LATELY_MS
    return [...this.#cameAt.values()].filter((at) => at >= from).length >= NETWORKS_WANTED
  }

  #opened({ id, direction, limits, remotePeer, remoteAddr }: Connection): void {
    if (direction !== 'inbound' || limits !== undefined || isPrivate(remoteAddr)) return
    // A peer that is already connected may be dialing back on request, or punching a hole.
    const isKnown = this.#deps.libp2p.getConnections(remotePeer).some((other) => other.id !== id)
    if (isKnown || this.#deps.isTrusted(remotePeer.toString())) return
    this.#cameAt.set(networkOf(hostIn(remoteAddr)), this.#now())
  }
}
