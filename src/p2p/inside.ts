import type { Connection, Listener } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'

type PublicAddressMapping = [
  host: string,
  port: number,
  publicHost: string,
  publicPort: number,
  protocol: 'tcp' | 'udp',
]

/** What is used of AutoNAT; its types name less than it has. */
export type DialBack = {
  client: {
    /** By address. */
    dialResults: Map<string, { success: number; failure: number }>
    verifyExternalAddresses(connection: Connection): Promise<void>
  }
}

/** Parts of libp2p that its surface does not offer. */
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
    removeObservedAddr(address: Multiaddr): void
  }
}
