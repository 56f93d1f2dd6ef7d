/*
 * Upstream: not reported. Seen in libp2p 3.3.11.
 * Goes when: the public interface offers these parts.
 */

import type { Connection, Listener } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'

type PublicAddressMapping = [
  host: string,
  port: number,
  publicHost: string,
  publicPort: number,
  protocol: 'tcp' | 'udp',
]

/** Parts of libp2p that its public interface does not offer. */
export type Inside = {
  transportManager: {
    dial(address: Multiaddr, options: { signal: AbortSignal; wanted?: boolean }): Promise<Connection>
    getAddrs(): Multiaddr[]
    listen(addresses: Multiaddr[]): Promise<void>
    getListeners(): Listener[]
  }
  upgrader: { upgradeOutbound(connection: { direction: string }, options: object): Promise<Connection> }
  addressManager: {
    getAddressesWithMetadata(): { multiaddr: Multiaddr; type: string; verified: boolean; expires: number }[]
    addPublicAddressMapping(...mapping: PublicAddressMapping): void
    removePublicAddressMapping(...mapping: PublicAddressMapping): void
    confirmObservedAddr(address: Multiaddr): void
    removeObservedAddr(address: Multiaddr): void
  }
}
