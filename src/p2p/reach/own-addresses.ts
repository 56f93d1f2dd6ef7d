import { isPrivate } from '@libp2p/utils'
import type { Multiaddr } from '@multiformats/multiaddr'
import { reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Node } from '../modules.ts'
import { announceable, bestFirst } from '../multiaddrs.ts'

/** Where others can reach this node, and who wants to know when that changes. */
export class OwnAddresses {
  readonly #libp2p: Node
  readonly #logger: Logger
  readonly #listeners = new Set<() => void>()
  #last: readonly string[] | undefined
  /** When one of them was last gone, by `performance.now()`. */
  movedAt = 0

  constructor(deps: { libp2p: Node; logger: Logger }) {
    this.#libp2p = deps.libp2p
    this.#logger = deps.logger
    deps.libp2p.addEventListener('self:peer:update', () => this.check())
  }

  /** Each ends in `/p2p/<peerId>`; public before private before loopback ones. */
  list(): string[] {
    return bestFirst(this.#libp2p.getMultiaddrs()).map(String)
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Looks whether they changed. libp2p does not notice when the machine changes networks; peers and listings must. */
  check(): void {
    if (this.#libp2p.status !== 'started') return
    const last = this.#last
    const now = this.list()
    this.#last = now
    if (last === undefined || (last.length === now.length && last.every((address, at) => address === now[at]))) return
    if (last.some((address) => !now.includes(address))) this.movedAt = performance.now()
    const { peerStore, peerId } = this.#libp2p
    peerStore.patch(peerId, { multiaddrs: this.#libp2p.getMultiaddrs() }).catch((error: unknown) => {
      this.#logger.warn({ reason: reasonOf(error) }, 'peers could not be told of the new addresses')
    })
    for (const listener of this.#listeners) listener()
  }

  /** libp2p keeps a public address to itself until somebody has proved that it can be dialled: the operator can say so. */
  warnOfUnannounced(listening: readonly Multiaddr[]): void {
    const hidden = announceable(listening).find((address) => !isPrivate(address))
    if (hidden === undefined) return
    const fix = `if peers can dial it, say so: NODE_ANNOUNCE_ADDR=${hidden}`
    this.#logger.warn({ address: hidden.toString() }, `this public address is not announced to others; ${fix}`)
  }
}
