import { setTimeout as delay } from 'node:timers/promises'
import { MemoryDatastore } from 'datastore-core/memory'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createReplica } from '../../src/listings/replica.ts'
import { createHost } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { ownListing } from '../../test/support/listings.ts'
import { servePart } from '../part.ts'

const NEIGHBORS = 4
/** Time in ms until gossip knows its neighbors. */
const SETTLE_MS = 3000
const BETWEEN_MS = 200
const ARRIVE_MS_MAX = 5000

/**
 * Runs this many nodes in one process, each connected to a few, and measures how long a change takes to reach each
 * node.
 */
servePart(async ({ nodes = '20' }) => {
  const peers = await Promise.all(Array.from({ length: Number(nodes) }, start))
  for (const [n, { host }] of peers.entries()) {
    for (let step = 1; step <= NEIGHBORS; step++) {
      const to = peers[(n + step * step) % peers.length]!.host
      const where = { peerId: to.peerId, addrs: to.addresses() }
      const stream = await host.openStream(where, '/ipfs/ping/1.0.0', AbortSignal.timeout(5000))
      stream.abort(new Error('only to connect'))
    }
  }
  await delay(SETTLE_MS)

  return {
    ready: {},
    /** Milliseconds from `publish` until each other node has the change, for this many changes. */
    async answer(changes) {
      const times: number[] = []
      for (let n = 0; n < Number(changes); n++) {
        const from = peers[n % peers.length]!
        const others = peers.filter((peer) => peer !== from)
        const description = `change ${n}`
        const at = performance.now()
        const arrived = others.map(
          ({ replica }) =>
            new Promise<void>((resolve, reject) => {
              const timer = setTimeout(() => reject(new Error('a change did not arrive')), ARRIVE_MS_MAX)
              const leave = replica.onChange((record) => {
                if (record.description !== description) return
                times.push(performance.now() - at)
                clearTimeout(timer)
                leave()
                resolve()
              })
            }),
        )
        await from.replica.publish(ownListing(from.host.peerId, 'agent', { description }))
        await Promise.all(arrived)
        await delay(BETWEEN_MS)
      }
      return times
    },
    async stop() {
      for (const { replica } of peers) await replica.stop()
      await Promise.all(peers.map(({ host }) => host.stop()))
    },
  }
})

async function start() {
  const identity = await createIdentity()
  const host = await createHost(
    { port: 0, listenHosts: ['127.0.0.1'], bootstrap: [], announce: [], mdns: false, version: '0.0.0' },
    { identity, datastore: new MemoryDatastore(), clock: systemClock, logger: silentLogger },
  )
  await host.start()
  const store = createListingStore(openDatabase({ path: ':memory:' }))
  const replica = createReplica({}, { host, identity, store, clock: systemClock, logger: silentLogger })
  await replica.start()
  return { host, replica }
}
