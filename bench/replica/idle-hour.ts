import { setTimeout as delay } from 'node:timers/promises'
import { type Clock, systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createReplica, type ReplicaHost } from '../../src/listings/replica.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { encodeBatch } from '../../src/protocols/sync/batch.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { FakeNetwork } from '../../test/support/fake-network.ts'
import { servePart } from '../part.ts'

const HOUR_MS = 60 * 60 * 1000
const TICKS = 240
/** Hours between refreshes of a listing: about half of its life. */
const REFRESHED_EVERY_H = 12

export type IdleHour = { upkeepCpuMs: number; upkeepBytes: number; refreshCpuMs: number; refreshBytes: number }

/**
 * Two replicas of a market on a network in memory, during an hour without changes: 240 ticks and 60 sessions each.
 * Beside it: the cost of the refreshes that gossip brings in an hour. The clock is simulated.
 */
servePart(async ({ path = '', market = '' }) => ({
  ready: {},
  async answer(): Promise<IdleHour> {
    const from = systemClock.now()
    let now = from
    const clock: Clock = { now: () => now }
    const network = new FakeNetwork()
    const traffic = { bytes: 0 }
    const options = { tickMs: 5, catchUp: { roundMs: 20, followUpMs: 1 } }
    const replicas = []
    for (const file of [path, market]) {
      const identity = await createIdentity()
      const host = network.host(identity.peerId)
      const store = createListingStore(openDatabase({ path: file }))
      const deps = { host: counted(host, traffic), identity, store, clock, logger: silentLogger }
      replicas.push({ host, replica: createReplica(options, deps) })
    }
    const [one, other] = replicas as [(typeof replicas)[0], (typeof replicas)[0]]
    network.connect(one.host, other.host)
    for (const { replica } of replicas) await replica.start()
    await delay(1000)
    traffic.bytes = 0
    const before = process.cpuUsage()
    for (let tick = 0; tick < TICKS; tick++) {
      now = from + (tick * HOUR_MS) / TICKS
      await delay(5)
    }
    const upkeep = process.cpuUsage(before)
    // This process holds both replicas, so each gets half of the time.
    const upkeepCpuMs = (upkeep.user + upkeep.system) / 2000
    const upkeepBytes = traffic.bytes
    for (const { replica } of replicas) await replica.stop()

    const source = openDatabase({ path: market })
    const refreshes = Math.round(Number(count(source)) / REFRESHED_EVERY_H)
    const rows = source.prepare('SELECT envelope FROM listings LIMIT ?').all(refreshes) as { envelope: Uint8Array }[]
    const identity = await createIdentity()
    const host = network.host(identity.peerId)
    const store = createListingStore(openDatabase({ path: ':memory:' }))
    const gossip = { peerBurst: 1e9, sellerBurst: 1e9 }
    const taker = createReplica({ gossip }, { host, identity, store, clock, logger: silentLogger })
    await taker.start()
    const start = process.cpuUsage()
    let bytes = 0
    for (const { envelope } of rows) {
      bytes += envelope.length
      await host.deliver(encodeBatch([envelope]), 'neighbor')
    }
    await taker.stop()
    const taken = process.cpuUsage(start)
    return { upkeepCpuMs, upkeepBytes, refreshCpuMs: (taken.user + taken.system) / 1000, refreshBytes: bytes }
  },
}))

function count(database: ReturnType<typeof openDatabase>): number {
  return (database.prepare('SELECT count(*) AS n FROM listings').get() as { n: number }).n
}

function counted(host: ReturnType<FakeNetwork['host']>, traffic: { bytes: number }): ReplicaHost {
  return {
    peerId: host.peerId,
    addresses: () => host.addresses(),
    peers: () => host.peers(),
    handle: (protocol, handler) => host.handle(protocol, handler),
    subscribe: (...args) => host.subscribe(...args),
    publish: (...args) => host.publish(...args),
    onPeerConnect: (listener) => host.onPeerConnect(listener),
    onAddressesChange: (listener) => host.onAddressesChange(listener),
    async openStream(...args) {
      const [peer, protocol] = args
      const stream = await host.openStream(peer, protocol)
      const send = stream.send.bind(stream)
      stream.send = (data) => {
        traffic.bytes += data.byteLength
        return send(data)
      }
      stream.addEventListener('message', ({ data }) => {
        traffic.bytes += data.byteLength
      })
      return stream
    },
  }
}
