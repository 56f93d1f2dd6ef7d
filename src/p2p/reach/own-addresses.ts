import { isPrivate } from '@libp2p/utils'
import type { Multiaddr } from '@multiformats/multiaddr'
import type { Logger } from '../../lib/logger.ts'
import type { Node } from '../modules.ts'
import { announceable, bestFirst } from '../multiaddrs.ts'

/** Own addresses told to others, the best of them. A machine with many networks has some dozens. */
const OWN_ADDRESSES_MAX = 64

/** The addresses of this node, and the listeners for their changes. */
export class OwnAddresses {
  readonly #libp2p: Node
  readonly #logger: Logger
  readonly #listeners = new Set<() => void>()
  #last: readonly string[] | undefined
  /** When an address last disappeared, by `performance.now()`. */
  movedAt = 0

  constructor(deps: { libp2p: Node; logger: Logger }) {
    this.#libp2p = deps.libp2p
    this.#logger = deps.logger
    deps.libp2p.addEventListener('self:peer:update', () => this.check())
  }

  /** Each ends in `/p2p/<peerId>`: public, then private, then loopback addresses. */
  list(): string[] {
    return this.#best().map(String)
  }

  #best(): Multiaddr[] {
    return bestFirst(this.#libp2p.getMultiaddrs()).slice(0, OWN_ADDRESSES_MAX)
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Checks for changes and informs peers and listeners. libp2p does not notice when the machine changes networks. */
  check(): void {
    if (this.#libp2p.status !== 'started') return
    const last = this.#last
    const now = this.list()
    this.#last = now
    if (last === undefined || (last.length === now.length && last.every((address, at) => address === now[at]))) return
    if (last.some((address) => !now.includes(address))) this.movedAt = performance.now()
    const { peerStore, peerId } = this.#libp2p
    peerStore.patch(peerId, { multiaddrs: this.#best() }).catch((error: unknown) => {
      this.#logger.warn({ err: error }, 'peers could not be informed of the new addresses')
    })
    for (const listener of this.#listeners) listener()
  }

  /**
   * Warns of a public address that is not announced. libp2p hides it until a peer proves it, but the operator can
   * announce it.
   */
  warnOfUnannounced(listening: readonly Multiaddr[]): void {
    const hidden = announceable(listening).find((address) => !isPrivate(address))
    if (hidden === undefined) return
    const fix = `if peers can dial it, say so: NODE_ANNOUNCE_ADDR=${hidden}`
    this.#logger.warn({ address: hidden.toString() }, `this public address is not announced to others; ${fix}`)
  }
}
