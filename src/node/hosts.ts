import type { Config } from '../config/config.ts'
import type { Service } from '../lib/lifecycle.ts'
import { createHost, type Host, type HostDeps, type PeerView } from '../p2p/host.ts'
import { loadOrCreateIdentity } from '../p2p/identity.ts'
import { dataFile } from '../store/data-dir.ts'
import type { PeerDatastore } from '../store/peer-datastore.ts'

/** The hosts of a node. A node alone has one host for both. */
type Hosts = {
  /** Serves and dials calls under the seller's identity. */
  host: Host
  /** Gossips, syncs and finds other nodes. */
  marketHost: Host
  /** The connected peers of both. */
  peers(): PeerView[]
  services: readonly Service[]
}

type HostsDeps = Omit<HostDeps, 'datastore' | 'directory' | 'otherPeerId'> & {
  datastore: PeerDatastore
  /** Other processes of the seller run beside this one, with the same identity. */
  isShared: boolean
}

/**
 * Builds one host, or two for one of several processes of a seller.
 *
 * Gossip, the DHT and sync tell nodes apart by their peer ids, so each process needs its own peer id there. A buyer dials
 * the peer id of the seller, and any of its processes answers.
 */
export async function createHosts(
  { dataDir, p2p }: Pick<Config, 'dataDir' | 'p2p'>,
  version: string,
  { isShared, datastore, ...deps }: HostsDeps,
): Promise<Hosts> {
  const { marketPort, ...shared } = p2p
  const options = { ...shared, version }
  if (!isShared) {
    const host = await createHost(options, { ...deps, datastore })
    return { host, marketHost: host, peers: () => host.peers(), services: [host] }
  }
  const { identity: seller, logger } = deps
  const own = await loadOrCreateIdentity(dataFile(dataDir, 'market'), { logger })
  const marketHost = await createHost(
    // The announced addresses are those of the port where calls are served.
    { ...options, role: 'market', port: marketPort, announce: [] },
    { ...deps, identity: own, datastore: datastore.part('market'), otherPeerId: seller.peerId },
  )
  const host = await createHost(
    { ...options, role: 'trade' },
    { ...deps, datastore: datastore.part('trade'), directory: marketHost, otherPeerId: own.peerId },
  )
  const peers = () => {
    const met = marketHost.peers()
    const ids = new Set(met.map(({ peerId }) => peerId))
    return [...met, ...host.peers().filter(({ peerId }) => !ids.has(peerId))]
  }
  return { host, marketHost, peers, services: [host, marketHost] }
}
