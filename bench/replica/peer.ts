import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import type { Stream } from '@libp2p/interface'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Pace } from '../../src/lib/pace.ts'
import { createReplica, type ReplicaHost } from '../../src/listings/replica.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { SYNC_PROTOCOL } from '../../src/protocols/sync/sync.ts'
import { indexWaiting } from '../../src/search/reindex.ts'
import { searchUpkeep } from '../../src/search/upkeep.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { createLookAlikes } from '../../src/store/look-alikes.ts'
import { ownListing } from '../../test/support/listings.ts'
import { startTestHost } from '../../test/support/test-host.ts'
import { servePart } from '../part.ts'
import { verifyAll } from './floor.ts'

export type Question =
  | { kind: 'meet'; address: string; peerId: string; count: number }
  | { kind: 'publish'; from: number; count: number }
  | { kind: 'session'; bytesMin: number; bytesMax: number }
  | { kind: 'verify' }
  | { kind: 'index' }

export type Session = { ms: number; toServer: number; toClient: number }
export type Met = { ms: number; loopP50Ms: number; loopP99Ms: number; loopMaxMs: number }

/** A replica on a real host without gossip: only sessions bring listings. */
servePart(async ({ path = '', search = 'no', roundMs = '1000000' }) => {
  const identity = await createIdentity()
  const database = openDatabase({ path })
  const pace = new Pace()
  const store = createListingStore(database, pace)
  const host = await startTestHost({ identity })
  const sessions: Session[] = []
  const deaf: ReplicaHost = {
    ...bound(host),
    subscribe: () => {},
    publish: async () => 0,
    openStream: async (peer, protocol, signal) => {
      const stream = await host.openStream(peer, protocol, signal)
      if (protocol === SYNC_PROTOCOL) measure(stream, sessions)
      return stream
    },
  }
  const deps = { host: deaf, identity, store, clock: systemClock, logger: silentLogger, pace }
  const replica = createReplica({ catchUp: { roundMs: Number(roundMs) } }, deps)
  await replica.start()
  const upkeep = searchUpkeep({ ...deps, lookAlikes: createLookAlikes(database, pace) })
  if (search === 'yes') await upkeep.start()

  async function meet({ address, peerId, count }: Question & { kind: 'meet' }): Promise<Met> {
    const loop = monitorEventLoopDelay({ resolution: 1 })
    loop.enable()
    let known = replica.count()
    const leave = replica.onChange((_, wasShown) => {
      if (!wasShown) known++
    })
    const from = performance.now()
    const stream = await host.openStream({ peerId, addrs: [address] }, '/ipfs/ping/1.0.0', AbortSignal.timeout(5000))
    stream.abort(new Error('only to connect'))
    while (known < count) await delay(10)
    leave()
    const ms = performance.now() - from
    loop.disable()
    const delayMs = (percentile: number) => loop.percentile(percentile) / 1e6 - 1
    return { ms, loopP50Ms: delayMs(50), loopP99Ms: delayMs(99), loopMaxMs: loop.max / 1e6 }
  }

  return {
    ready: { address: host.addresses().find((one) => one.includes('/tcp/'))!, peerId: identity.peerId },
    async answer(question) {
      const asked = question as Question
      switch (asked.kind) {
        case 'meet':
          return meet(asked)
        case 'publish':
          for (let n = asked.from; n < asked.from + asked.count; n++) {
            await replica.publish(ownListing(identity.peerId, `agent ${n}`))
          }
          return undefined
        case 'session': {
          // The session that `meet` waited for brought many more listings.
          for (const until = performance.now() + 3000; performance.now() < until; ) {
            const found = sessions.find(({ toClient }) => toClient >= asked.bytesMin && toClient < asked.bytesMax)
            sessions.splice(0)
            if (found !== undefined) return found
            await delay(5)
          }
          return undefined
        }
        case 'verify':
          return verifyAll(database)
        case 'index': {
          const names = createLookAlikes(database)
          while (await indexWaiting(store)) {}
          while (await names.step()) {}
          return undefined
        }
      }
    },
    async stop() {
      await upkeep.stop()
      await replica.stop()
      await host.stop()
      await database.close()
    },
  }
})

/** Methods of a class, bound so that they can be spread. */
function bound(host: Host): ReplicaHost {
  return {
    peerId: host.peerId,
    addresses: () => host.addresses(),
    peers: () => host.peers(),
    handle: (...args) => host.handle(...args),
    openStream: (...args) => host.openStream(...args),
    subscribe: (...args) => host.subscribe(...args),
    publish: (...args) => host.publish(...args),
    onPeerConnect: (listener) => host.onPeerConnect(listener),
    onAddressesChange: (listener) => host.onAddressesChange(listener),
  }
}

function measure(stream: Stream, sessions: Session[]): void {
  const session: Session = { ms: 0, toServer: 0, toClient: 0 }
  const from = performance.now()
  const send = stream.send.bind(stream)
  stream.send = (data) => {
    session.toServer += data.byteLength
    return send(data)
  }
  stream.addEventListener('message', ({ data }) => {
    session.toClient += data.byteLength
  })
  stream.addEventListener('close', () => {
    sessions.push({ ...session, ms: performance.now() - from })
  })
}
