import type { Connection, Listener } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'

/** Parts of libp2p that its surface does not offer. */
export type Inside = {
  transportManager: {
    dial(address: Multiaddr, options: { signal: AbortSignal }): Promise<Connection>
    getAddrs(): Multiaddr[]
    listen(addresses: Multiaddr[]): Promise<void>
    getListeners(): Listener[]
  }
}
