import type { Multiaddr } from '@multiformats/multiaddr'
import { isPublicAddress } from '../lib/public-address.ts'
import { hostIn, placeIn } from './networks.ts'

export type ListedAddressesDeps = {
  /** Whether private addresses and names of others may be dialed: this node is in their network, and its operator agrees. */
  mayDialPrivate: boolean
  /** Hosts that this node listens at. */
  listenHosts: readonly string[]
  /** Whether this node reached the peer at the place before. */
  isReached(peerId: string, place: string): boolean
}

/**
 * Which of a peer's addresses this node dials when a listing, or anybody else, names them (D52).
 *
 * A listing can name any address. Without this rule every buyer that looks at it scans ports of its own network, and the
 * time that it takes tells the seller what is there. A public address is dialed. A private address or a name is dialed
 * only where this node has met the peer, or where the operator allows it.
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
    // A node that listens at loopback only is in no other network: a demo, a test.
    if (this.#isLoopbackOnly && isLoopbackHost(host)) return true
    return this.#deps.isReached(peerId, placeIn(address))
  }
}

function isLoopbackHost(host: string): boolean {
  return host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
