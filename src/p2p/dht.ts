import {
  type KadDHT,
  type KadDHTComponents,
  kadDHT,
  passthroughMapper,
  removePrivateAddressesMapper,
} from '@libp2p/kad-dht'
import { MemoryDatastore } from 'datastore-core/memory'
import { BoundedDatastore } from './bounded-datastore.ts'
import type { DialBudget } from './dial-budget.ts'
import { guardDht } from './libp2p-fixes/dht-guard.ts'

/** The market's own DHT, separate from the public DHT. */
export const DHT_PROTOCOL = '/node/kad/1.0.0'
export const PUBLIC_DHT_PROTOCOL = '/ipfs/kad/1.0.0'
/** Public nodes that are operated for joining the public DHT. */
export const PUBLIC_BOOTSTRAP: readonly string[] = [
  'QmNnooDu7bfjPFoTZYxMNLWUQJyrVwtbZg5gBMjTezGAJN',
  'QmQCU2EcMqAqQPR2i9bChDtGNJchTbq5TbXJJ16u19uLTa',
  'QmbLHAnMoJPWSCR5Zhtx6BHJX9KiKNN6tpvbUcqanj75Nb',
].map((peerId) => `/dnsaddr/bootstrap.libp2p.io/p2p/${peerId}`)

/** Records that others ask this node to store for the DHT. They are kept in memory only, because others ask again. */
const RECORDS_MAX = 1000
const RECORD_BYTES_MAX = 4 * 1024

type Startable = { start(): Promise<void>; stop(): Promise<void> }

/** The part of a DHT that publishes this node and finds others. */
export type Directory = Pick<KadDHT, 'provide' | 'findProviders'>

/**
 * Creates the market's DHT as a server, also on private networks. libp2p's default never makes a node on a private
 * network a server.
 */
export function createDht(components: KadDHTComponents, budget: DialBudget): KadDHT {
  const create = kadDHT({ protocol: DHT_PROTOCOL, clientMode: false, peerInfoMapper: passthroughMapper })
  return guardDht(create(bounded(components)), components, budget)
}

/**
 * Creates a client of the public DHT, which answers no questions there (D43). It is only a directory: libp2p must not
 * mistake the public DHT's peers for peers of the market.
 */
export function createPublicDht(
  components: KadDHTComponents,
  { privateAddresses }: { privateAddresses: boolean },
  budget: DialBudget,
): Directory & Startable {
  const create = kadDHT({
    protocol: PUBLIC_DHT_PROTOCOL,
    clientMode: true,
    peerInfoMapper: privateAddresses ? passthroughMapper : removePrivateAddressesMapper,
    logPrefix: 'libp2p:dht-public',
    datastorePrefix: '/dht-public',
    metricsPrefix: 'libp2p_dht_public',
  })
  const dht = guardDht(create(bounded(components)), components, budget) as KadDHT & Startable
  return {
    start: () => dht.start(),
    stop: () => dht.stop(),
    provide: (...args) => dht.provide(...args),
    findProviders: (...args) => dht.findProviders(...args),
  }
}

function bounded(components: KadDHTComponents): KadDHTComponents {
  const limits = { entriesMax: RECORDS_MAX, valueBytesMax: RECORD_BYTES_MAX }
  const records = new BoundedDatastore(new MemoryDatastore(), limits)
  return Object.create(components, { datastore: { value: records } })
}
