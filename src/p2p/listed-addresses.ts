import type { Multiaddr } from '@multiformats/multiaddr'
import { isPublicAddress } from '../lib/public-address.ts'
import { hostIn, placeIn } from './networks.ts'

type ListedAddressesDeps = {
  /**
   * True if private addresses and names from others may be dialed. This node is then in their network, and its operator
   * agrees.
   */
  mayDialPrivate: boolean
  /** Hosts that this node listens on. */
  listenHosts: readonly string[]
  /** True if this node reached the peer at this place before. */
  isReached(peerId: string, place: string): boolean
}

/**
 * Decides which addresses of a peer this node dials when a listing, or anybody else, names them (D52).
 *
 * A listing can name any address. Without this rule, every buyer that looks at the listing would scan ports of its own
 * network. The time it takes would tell the seller what is there. A public address is always dialed. A private address
 * or a name is dialed only if this node met the peer there, or if the operator allows it.
 */
export class ListedAddresses {
  readonly #deps: ListedAddressesDeps
  readonly #isLoopbackOnly: boolean

  constructor(deps: ListedAddressesDeps) {
    this.#deps = deps
    this.#isLoopbackOnly = deps.listenHosts.length > 0 && deps.listenHosts.every(isLoopbackHost)
  }

  mayDial(peerId: string, address: Multiaddr): boolean {
    const host = hostIn(address)
    if (this.#deps.mayDialPrivate || isPublicAddress(host)) return true
    // A node that listens only on loopback is in no other network, as in a demo or a test.
    if (this.#isLoopbackOnly && isLoopbackHost(host)) return true
    return this.#deps.isReached(peerId, placeIn(address))
  }
}

function isLoopbackHost(host: string): boolean {
  return host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
