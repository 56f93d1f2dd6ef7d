import { silentLogger } from '../../src/lib/logger.ts'
import { createReplica, type Replica } from '../../src/listings/replica.ts'
import { createIdentity, type Identity } from '../../src/p2p/identity.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import type { ListingVersions } from '../../src/store/listing-versions.ts'
import { createListingStore, type ListingStore } from '../../src/store/listings.ts'
import type { FakeHost, FakeNetwork } from './fake-network.ts'
import { HandClock } from './hand-clock.ts'

type ReplicaOptions = Parameters<typeof createReplica>[0]

/** A replica on a network in memory, with the parts that a test reads or changes. */
export type ReplicaPeer = {
  identity: Identity
  host: FakeHost
  database: Database
  clock: HandClock
  replica: Replica
  /** Warnings in its log. */
  log: string[]
}

/** `hostId`: the peer id of the market host, if it is not the seller's. */
type Extra = { store: ListingStore; hostId: string; versions: ListingVersions }

const running = new Set<Replica>()

const quick: ReplicaOptions = {
  tickMs: 5,
  writeMs: 1,
  addressesMs: 1,
  gossip: { gatherMs: 1, retryMs: 2 },
  catchUp: { retryMs: 2, followUpMs: 2, roundMs: 1_000_000 },
}

/** Starts a replica. Parts of an earlier replica restart that replica. */
export async function startReplica(
  network: FakeNetwork,
  earlier: Partial<Pick<ReplicaPeer, 'identity' | 'database' | 'clock'> & Extra> = {},
  options: ReplicaOptions = {},
  /** Names of agents that another node lists under this node's key. */
  copied: string[] = [],
): Promise<ReplicaPeer> {
  const identity = earlier.identity ?? (await createIdentity())
  const database = earlier.database ?? openDatabase({ path: ':memory:' })
  const clock = earlier.clock ?? new HandClock()
  const host = network.host(earlier.hostId ?? identity.peerId)
  const log: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void log.push(message) }
  const store = earlier.store ?? createListingStore(database)
  const { versions } = earlier
  const deps = { host, identity, store, clock, logger, copied: (name: string) => void copied.push(name), versions }
  const gossip = { ...quick.gossip, ...options.gossip }
  const catchUp = { ...quick.catchUp, ...options.catchUp }
  const replica = createReplica({ ...quick, ...options, gossip, catchUp }, deps)
  await replica.start()
  running.add(replica)
  return { identity, host, database, clock, replica, log }
}

/** Call this in `afterEach`. */
export async function stopReplicas(): Promise<void> {
  const replicas = [...running]
  running.clear()
  await Promise.all(replicas.map((replica) => replica.stop()))
}

/** The sorted names of the listings that a replica shows. */
export function namesIn({ replica }: Pick<ReplicaPeer, 'replica'>): string[] {
  return replica
    .all()
    .map(({ name }) => name)
    .sort()
}

export function rowsOf({ database }: Pick<ReplicaPeer, 'database'>): number {
  return (database.prepare('SELECT count(*) AS n FROM listings').get() as { n: number }).n
}
