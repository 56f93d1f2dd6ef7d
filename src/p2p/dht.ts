import {
  type KadDHT,
  type KadDHTComponents,
  kadDHT,
  passthroughMapper,
  removePrivateAddressesMapper,
} from '@libp2p/kad-dht'
import { MemoryDatastore } from 'datastore-core/memory'
import { BoundedDatastore } from './bounded-datastore.ts'
import { guardDht } from './dht-guard.ts'
import type { DialBudget } from './dial-budget.ts'

/** The market's own DHT, apart from the public one. */
export const DHT_PROTOCOL = '/node/kad/1.0.0'
/** The DHT of all of libp2p. */
export const PUBLIC_DHT_PROTOCOL = '/ipfs/kad/1.0.0'
/** Nodes that are kept up for the public to join it by. */
export const PUBLIC_BOOTSTRAP: readonly string[] = [
  'QmNnooDu7bfjPFoTZYxMNLWUQJyrVwtbZg5gBMjTezGAJN',
  'QmQCU2EcMqAqQPR2i9bChDtGNJchTbq5TbXJJ16u19uLTa',
  'QmbLHAnMoJPWSCR5Zhtx6BHJX9KiKNN6tpvbUcqanj75Nb',
].map((peerId) => `/dnsaddr/bootstrap.libp2p.io/p2p/${peerId}`)

/** Records that others ask this node to keep for the DHT; kept in memory only, as they ask again. */
const RECORDS_MAX = 1000
const RECORD_BYTES_MAX = 4 * 1024

type Startable = { start(): Promise<void>; stop(): Promise<void> }

/** What is used of a DHT to be found in it, and to find. */
export type Directory = Pick<KadDHT, 'provide' | 'findProviders'>

/** A server also on private networks, which libp2p's own default never makes one. */
export function createDht(components: KadDHTComponents, budget: DialBudget): KadDHT {
  const create = kadDHT({ protocol: DHT_PROTOCOL, clientMode: false, peerInfoMapper: passthroughMapper })
  return guardDht(create(bounded(components)), components, budget)
}

/**
 * The public DHT, as a directory and no more: libp2p must not take its peers for those of the market. A client of it, which
 * answers nobody's questions there (D43).
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
  const records = new BoundedDatastore(new MemoryDatastore(), {
    entriesMax: RECORDS_MAX,
    valueBytesMax: RECORD_BYTES_MAX,
  })
  return Object.create(components, { datastore: { value: records } })
}
