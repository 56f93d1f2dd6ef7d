/** Reachability: over a relay, real sockets on loopback. Tests with NATs are in test/nat/. */
import { identify } from '@libp2p/identify'
import type { Stream } from '@libp2p/interface'
import { kadDHT, passthroughMapper } from '@libp2p/kad-dht'
import { noise } from '@libp2p/noise'
import { ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { createLibp2p } from 'libp2p'
import { afterEach, expect, test } from 'vitest'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { freePort } from '../support/loopback.ts'
import { startTestHost, type TestHostOptions, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const ECHO = '/test/echo/1.0.0'
const LOCAL_ONLY = '/test/local/1.0.0'
const cleanups: (() => unknown)[] = []
const within = (ms: number) => AbortSignal.timeout(ms)
/** Ends a call that hangs. A busy machine may need many seconds for one that does not. */
const ending = () => within(30_000)

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(options?: TestHostOptions): Promise<Host> {
  const host = await startTestHost(options)
  cleanups.push(() => host.stop())
  for (const protocol of [ECHO, LOCAL_ONLY]) await host.handle(protocol, echo, { relayed: protocol === ECHO })
  return host
}

function echo(stream: Stream): void {
  stream.addEventListener('message', (event) => {
    if (!stream.send(event.data)) stream.pause()
  })
  stream.addEventListener('drain', () => stream.resume())
  stream.addEventListener('remoteCloseWrite', () => void stream.close().catch(() => {}))
}

/** Sends bytes and counts what comes back. */
async function echoed(stream: Stream, bytes: number): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let count = 0
  stream.addEventListener('message', ({ data }) => {
    count += data.byteLength
    if (count >= bytes) resolve(count)
  })
  stream.addEventListener('close', ({ error }) => reject(error ?? new Error(`closed after ${count} bytes`)))
  stream.send(new Uint8Array(bytes))
  return await promise
}

const relayedOf = (host: Host) => host.addresses().filter((address) => address.includes('/p2p-circuit/'))

/** A relay, and a seller that has a place there. */
async function startBehindRelay(options: TestHostOptions = {}) {
  const relay = await start({ relay: true })
  const seller = await start({ bootstrap: [whereIs(relay, 'tcp').addrs[0]!], ...options })
  const addrs = await until(() => (relayedOf(seller).length > 0 ? relayedOf(seller) : undefined))
  return { relay, seller, addrs }
}

test('a node that nobody has proved to be dialable takes a place at a relay, announces it and says so', async () => {
  const { relay, seller, addrs } = await startBehindRelay()
  expect(addrs).toContain(`${whereIs(relay, 'tcp').addrs[0]}/p2p-circuit/p2p/${seller.peerId}`)
  expect(seller.addresses().at(-1)).toBe(addrs.at(-1))
  expect(seller.reachability()).toMatchObject({ state: 'relayed', relays: [relay.peerId], addresses: addrs })
})

test('a stream runs over the relay, 8 MiB each way, and the peer at its end is the seller', async () => {
  const { seller, addrs } = await startBehindRelay()
  const buyer = await start()
  const stream = await buyer.openStream({ peerId: seller.peerId, addrs }, ECHO, ending())
  // Asked before the bytes are sent: on a slow machine the two find a direct way meanwhile.
  const peer = buyer.peers().find(({ peerId }) => peerId === seller.peerId)
  expect(peer?.addresses[0]).toContain('/p2p-circuit')
  expect(await echoed(stream, 8 * 1024 * 1024)).toBe(8 * 1024 * 1024)
})

test('T7: a protocol that is not for relays is neither spoken nor answered over one', async () => {
  const { seller, addrs } = await startBehindRelay()
  const buyer = await startTestHost()
  cleanups.push(() => buyer.stop())
  const bare = { peerId: seller.peerId, addrs }
  // Nothing says to this buyer that it may be relayed.
  await expect(buyer.openStream(bare, LOCAL_ONLY, within(5000))).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' })
  await buyer.handle(LOCAL_ONLY, echo, { relayed: true })
  await expect(buyer.openStream(bare, LOCAL_ONLY, within(5000))).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' })
})

test('T20: a relay that dies and returns is used again, and the addresses follow both ways', async () => {
  const identity = await createIdentity()
  const port = await freePort()
  const relay = await start({ relay: true, identity, port })
  const seller = await start({ relays: [whereIs(relay, 'tcp').addrs[0]!] })
  await until(() => relayedOf(seller).length > 0)
  let changes = 0
  seller.onAddressesChange(() => {
    changes += 1
  })
  await relay.stop()
  await until(() => relayedOf(seller).length === 0)
  expect(seller.reachability().state).not.toBe('relayed')
  await until(() => changes > 0)
  await start({ relay: true, identity, port })
  const addrs = await until(() => (relayedOf(seller).length > 0 ? relayedOf(seller) : undefined))
  const buyer = await start()
  await buyer.openStream({ peerId: seller.peerId, addrs }, ECHO, ending())
})

test('T7: a peer that says it relays a connection does not become a relay by that', async () => {
  const hostile = await start({ relay: true })
  const seller = await start({ announce: ['/ip4/9.9.9.9/tcp/4001'] })
  const stop = '/libp2p/circuit/relay/0.2.0/stop'
  const stream = await hostile.openStream(whereIs(seller, 'tcp'), stop, within(5000)).catch(() => undefined)
  await until(() => stream?.status !== 'open')
  await until(() => seller.speaks(hostile.peerId, '/libp2p/circuit/relay/0.2.0/hop'))
  expect(relayedOf(seller)).toEqual([])
})

test('a node with an announced address takes no relay', async () => {
  const relay = await start({ relay: true })
  const seller = await start({ announce: ['/ip4/9.9.9.9/tcp/4001'], bootstrap: whereIs(relay, 'tcp').addrs })
  await until(() => seller.speaks(relay.peerId, '/libp2p/circuit/relay/0.2.0/hop'))
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(relayedOf(seller)).toEqual([])
  expect(seller.reachability()).toMatchObject({ state: 'public' })
})

test('whether a peer answers is found out without buying, directly and over a relay', async () => {
  const { relay, seller, addrs } = await startBehindRelay()
  const prober = await startTestHost()
  cleanups.push(() => prober.stop())
  for (const place of [addrs, whereIs(seller).addrs]) {
    expect(await prober.probe({ peerId: seller.peerId, addrs: place }, ending())).toBeGreaterThan(0)
  }
  await seller.stop()
  await expect(prober.probe({ peerId: seller.peerId, addrs }, within(5000))).rejects.toThrow('cannot be reached')
  expect(relay.peers().length).toBeGreaterThan(0)
})

test('a node joins by the address of a seller behind a relay, as its status shows it', async () => {
  const { relay, seller, addrs } = await startBehindRelay()
  const newcomer = await start({ bootstrap: addrs.slice(0, 1) })
  await until(() => newcomer.speaks(relay.peerId, ECHO) && newcomer.speaks(seller.peerId, ECHO))
})

test('two nodes with no bootstrap of the market find each other in the public DHT', async () => {
  const publicDht = { bootstrap: [await startPublicNode()], privateAddresses: true }
  const [one, other] = await Promise.all([start({ publicDht }), start({ publicDht })])
  await until(() => one.speaks(other.peerId, ECHO) && other.speaks(one.peerId, ECHO))
})

/** A server of the public DHT that has nothing to do with the market. @returns its address */
async function startPublicNode(): Promise<string> {
  const node = await createLibp2p({
    addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
    transports: [tcp()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    services: {
      identify: identify(),
      ping: ping(),
      dht: kadDHT({ protocol: '/ipfs/kad/1.0.0', clientMode: false, peerInfoMapper: passthroughMapper }),
    },
  })
  cleanups.push(() => node.stop())
  return node.getMultiaddrs()[0]!.toString()
}
