import type { Connection } from '@libp2p/interface'
import { isPrivate } from '@libp2p/utils'
import type { Node } from '../modules.ts'
import { hostIn, networkOf } from '../networks.ts'

/** Strangers of so many networks must have come in lately, before a node does without relays. */
const NETWORKS_WANTED = 2
/** With nobody for so long, relays are taken again. */
const LATELY_MS = 2 * 60 * 60 * 1000
const NETWORKS_KEPT_MAX = 256

export type VisitorsDeps = {
  libp2p: Pick<Node, 'addEventListener' | 'getConnections'>
  /** Whether the operator named the peer: it is no stranger. */
  isTrusted(peerId: string): boolean
  now?: () => number
}

/**
 * Whether strangers come to this node by its own addresses: directly, from the internet, and not as the other end of a hole
 * that both punched (D52). A proof of an address may be feigned by those who give it; that nobody comes shows it.
 */
export class Visitors {
  readonly #deps: VisitorsDeps
  readonly #now: () => number
  /** By network: when somebody last came from there. */
  readonly #cameAt = new Map<string, number>()

  constructor(deps: VisitorsDeps) {
    this.#deps = deps
    this.#now = deps.now ?? (() => performance.now())
    deps.libp2p.addEventListener('connection:open', ({ detail }) => this.#opened(detail))
  }

  /** Whether strangers of several networks came in lately. */
  come(): boolean {
    const from = this.#now() - LATELY_MS
    return [...this.#cameAt.values()].filter((at) => at >= from).length >= NETWORKS_WANTED
  }

  #opened({ id, direction, limits, remotePeer, remoteAddr }: Connection): void {
    if (direction !== 'inbound' || limits !== undefined || isPrivate(remoteAddr)) return
    // Whoever this node knows already may be dialing back what it was asked to, or punching.
    const isKnown = this.#deps.libp2p.getConnections(remotePeer).some((other) => other.id !== id)
    if (isKnown || this.#deps.isTrusted(remotePeer.toString())) return
    const network = networkOf(hostIn(remoteAddr))
    this.#cameAt.delete(network)
    this.#cameAt.set(network, this.#now())
    if (this.#cameAt.size > NETWORKS_KEPT_MAX) this.#cameAt.delete(this.#cameAt.keys().next().value as string)
  }
}
