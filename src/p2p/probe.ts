import { peerIdFromString } from '@libp2p/peer-id'
import type { Connector, Destination } from './connector.ts'
import type { Node } from './modules.ts'
import { PING_PROTOCOL, pingOn } from './ping.ts'

/** Asks whether a peer answers, and returns the latency in ms. Closes a connection that was opened only for this. */
export async function probe(
  peer: Destination,
  { libp2p, connector, relayed }: { libp2p: Node; connector: Connector; relayed: ReadonlySet<string> },
  signal: AbortSignal,
): Promise<number> {
  const id = peerIdFromString(peer.peerId)
  const before = new Set(libp2p.getConnections(id))
  try {
    return await pingOn(await connector.openStream(peer, PING_PROTOCOL, signal, { asking: true }), signal)
  } finally {
    if (before.size === 0) {
      for (const connection of libp2p.getConnections(id)) {
        // A buyer may use the connection by now.
        const isUsed = connection.streams.some(({ protocol }) => relayed.has(protocol) && protocol !== PING_PROTOCOL)
        if (!isUsed) connection.close().catch(() => {})
      }
    }
  }
}
