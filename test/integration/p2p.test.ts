import { createSocket } from 'node:dgram'
import { mkdtempSync } from 'node:fs'
import { createServer } from 'node:net'
import os, { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PeerId, Stream } from '@libp2p/interface'
import type { KadDHT } from '@libp2p/kad-dht'
import { multiaddr } from '@multiformats/multiaddr'
import { MemoryDatastore } from 'datastore-core/memory'
import { CID } from 'multiformats/cid'
import { sha256 } from 'multiformats/hashes/sha2'
import { afterEach, expect, test, vi } from 'vitest'
import { type Logger, silentLogger } from '../../src/lib/logger.ts'
import { Gossip } from '../../src/p2p/gossip.ts'
import type { Host, Verdict } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { createModules, type Node } from '../../src/p2p/modules.ts'
import { openDatabase } from '../../src/store/database.ts'
import { PeerDatastore } from '../../src/store/peer-datastore.ts'
import { FreezableProxy, freePort, listen } from '../support/loopback.ts'
import { createTestHost, startTestHost, type TestHostOptions, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const ECHO = '/test/echo/1.0.0'
const TOPIC = 'test/topic'
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  vi.restoreAllMocks()
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(options?: TestHostOptions): Promise<Host> {
  const host = await startTestHost(options)
  cleanups.push(() => host.stop())
  return host
}

/** A host that sends back what it gets on a stream. */
async function startEcho(options?: TestHostOptions): Promise<Host> {
  const host = await start(options)
  await host.handle(ECHO, (stream) => {
    stream.addEventListener('message', (event) => stream.send(event.data))
    stream.addEventListener('remoteCloseWrite', () => void stream.close().catch(() => {}))
  })
  return host
}

const within = (ms: number) => AbortSignal.timeout(ms)
const encode = (text: string) => new TextEncoder().encode(text)
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

async function ask(stream: Stream, text: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  stream.addEventListener('message', (event) => resolve(decode(event.data.subarray())))
  stream.addEventListener('close', (event) => reject(event.error ?? new Error('closed')))
  stream.send(encode(text))
  return await promise
}

/** A peer that need not behave: bare libp2p. */
async function startRaw(
  datastore = new MemoryDatastore(),
  gossip = new Gossip({ logger: silentLogger }),
): Promise<Node> {
  const { libp2p } = await createModules(
    { port: 0, listenHosts: ['127.0.0.1'], announce: [], mdns: false, version: '0' },
    {
      identity: await createIdentity(),
      datastore,
      gossip,
      logger: silentLogger,
      found: () => {},
    },
  )
  await libp2p.start()
  cleanups.push(() => libp2p.stop())
  return libp2p
}

/** Notes every warning. */
function noting(): { logger: Logger; warnings: string[] } {
  const warnings: string[] = []
  const logger = {
    ...silentLogger,
    warn: (fields: object, message: string) => warnings.push(`${message} ${JSON.stringify(fields)}`),
  }
  return { logger: { ...logger, child: () => logger as Logger }, warnings }
}

const connectedTo = (host: Host, other: Host) => host.peers().some(({ peerId }) => peerId === other.peerId)

test.each(['tcp', 'quic-v1'] as const)(
  'two hosts connect over %s and exchange a request and a response',
  async (transport) => {
    const [buyer, seller] = await Promise.all([start(), startEcho()])
    const stream = await buyer.openStream(whereIs(seller, transport), ECHO, within(30_000))
    expect(await ask(stream, 'hello')).toBe('hello')
    const peer = await until(() => buyer.peers()[0])
    expect(peer).toMatchObject({ peerId: seller.peerId, direction: 'outbound' })
    expect(peer.addresses).toEqual([expect.stringContaining(`/${transport}`)])
  },
)

test('the handler gets the peer whose key the connection proved', async () => {
  const [buyer, seller] = await Promise.all([start(), start()])
  const caller = Promise.withResolvers<string>()
  await seller.handle(ECHO, (_stream, peerId) => caller.resolve(peerId))
  await buyer.openStream(whereIs(seller), ECHO, within(30_000))
  expect(await caller.promise).toBe(buyer.peerId)
})

test('D21: of a connected peer the version it gives, what it speaks and the latency become known', async () => {
  const [a, b] = await Promise.all([start(), startEcho()])
  expect(a.speaks(b.peerId, ECHO)).toBeUndefined()
  await a.openStream(whereIs(b), ECHO, within(30_000))
  const peer = await until(() =>
    a.peers().find(({ latencyMs, agentVersion }) => latencyMs !== undefined && agentVersion),
  )
  expect(peer.agentVersion).toBe('stoa/0.0.0-test')
  expect(peer.latencyMs).toBeGreaterThanOrEqual(0)
  expect(peer.latencyMs).toBeLessThan(60_000)
  expect([a.speaks(b.peerId, ECHO), a.speaks(b.peerId, '/other/1')]).toEqual([true, false])
})

test('many streams opened at once share one connection', async () => {
  const [buyer, seller] = await Promise.all([start(), startEcho()])
  const streams = await Promise.all(
    Array.from({ length: 50 }, () => buyer.openStream(whereIs(seller), ECHO, within(30_000))),
  )
  expect(await Promise.all(streams.map((stream, index) => ask(stream, `${index}`)))).toHaveLength(50)
  expect(seller.peers()[0]?.addresses).toHaveLength(1)
})

test('T7: a peer gets at most 256 streams of one protocol, and no second connection for more', async () => {
  const [buyer, seller] = await Promise.all([start(), startEcho()])
  for (let count = 0; count < 256; count++) await buyer.openStream(whereIs(seller, 'tcp'), ECHO, within(30_000))
  const oneMore = buyer.openStream(whereIs(seller, 'tcp'), ECHO, within(30_000))
  await expect(oneMore).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' })
  expect(buyer.peers()[0]?.addresses).toHaveLength(1)
})

test('T7: a peer gets at most 8 connections', async () => {
  const [hoarder, seller] = await Promise.all([startRaw(), start()])
  const address = multiaddr(whereIs(seller, 'tcp').addrs[0])
  for (let count = 0; count < 12; count++) await hoarder.dial(address, { force: true }).catch(() => {})
  await until(() => hoarder.getConnections().length === 8)
  expect(seller.peers()[0]?.addresses).toHaveLength(8)
})

test('T19: records that others store in the DHT are kept in memory and do not reach the disk', async () => {
  const datastore = new MemoryDatastore()
  const [client, server] = await Promise.all([startRaw(), startRaw(datastore)])
  await client.dial(server.getMultiaddrs())
  const record = CID.createV1(0x55, await sha256.digest(encode('record')))
  await client.contentRouting.provide(record, { signal: within(20_000) })
  const { providers } = server.services.dht as KadDHT & { providers: { getProviders(cid: CID): Promise<PeerId[]> } }
  await until(async () => (await providers.getProviders(record)).some((peer) => peer.equals(client.peerId)))
  const kept = (await Array.fromAsync(datastore.query({}))).map(({ key }) => key.toString())
  expect(kept.length).toBeGreaterThan(0)
  expect(kept.filter((key) => !key.startsWith('/peers/'))).toEqual([])
})

test.each(['tcp', 'quic-v1'] as const)(
  'D18: over %s a stream that is taken back is told from one that has ended',
  async (transport) => {
    const [buyer, seller] = await Promise.all([start(), start()])
    const ends: string[] = []
    await seller.handle(ECHO, (stream) => {
      stream.addEventListener('message', ({ data }) => stream.send(data))
      stream.addEventListener('remoteCloseWrite', () => void stream.close())
      stream.addEventListener('close', ({ error }) => ends.push(error?.name ?? 'ended'))
    })
    const [first, second] = [
      await buyer.openStream(whereIs(seller, transport), ECHO, within(30_000)),
      await buyer.openStream(whereIs(seller, transport), ECHO, within(30_000)),
    ]
    expect([await ask(first, 'one'), await ask(second, 'two')]).toEqual(['one', 'two'])
    await first.close()
    await until(() => ends.length === 1)
    second.abort(new Error('taken back'))
    await until(() => ends.length === 2)
    expect(ends).toEqual(['ended', 'StreamResetError'])
  },
)

test('a handler that throws resets its stream and harms no other', async () => {
  const [buyer, seller] = await Promise.all([start(), start()])
  let calls = 0
  await seller.handle(ECHO, (stream) => {
    calls += 1
    if (calls === 1) throw new Error('a bug')
    stream.addEventListener('message', (event) => stream.send(event.data))
  })
  // One address: with more, a stream that ends at once is opened again at another.
  await expect(
    buyer.openStream(whereIs(seller, 'tcp'), ECHO, within(30_000)).then((stream) => ask(stream, 'one')),
  ).rejects.toThrow()
  expect(await ask(await buyer.openStream(whereIs(seller), ECHO, within(30_000)), 'two')).toBe('two')
})

test('a protocol the peer does not speak is PROTOCOL_UNSUPPORTED, on a new connection and on an old one', async () => {
  const [buyer, seller] = await Promise.all([start(), start()])
  for (let round = 0; round < 2; round++) {
    await expect(buyer.openStream(whereIs(seller), '/none/1.0.0', within(30_000))).rejects.toMatchObject({
      code: 'PROTOCOL_UNSUPPORTED',
      message: expect.stringContaining('/none/1.0.0'),
    })
  }
})

test.each(['tcp', 'quic-v1'] as const)(
  'T9: another peer that answers at the address over %s is refused',
  async (transport) => {
    const [buyer, seller, impostor] = await Promise.all([start(), start(), startEcho()])
    const addrs = whereIs(impostor, transport).addrs.map((address) => address.replace(/\/p2p\/.*/, ''))
    await expect(buyer.openStream({ peerId: seller.peerId, addrs }, ECHO, within(30_000))).rejects.toMatchObject({
      code: 'PEER_UNREACHABLE',
    })
    expect(connectedTo(buyer, impostor)).toBe(false)
  },
)

test('an invalid peer id, or this node’s own, cannot be reached', async () => {
  const host = await startEcho()
  for (const peerId of ['', 'nonsense', host.peerId]) {
    await expect(host.openStream({ ...whereIs(host), peerId }, ECHO, within(30_000))).rejects.toMatchObject({
      code: 'PEER_UNREACHABLE',
    })
  }
})

test('T7: an address that takes connections and stays silent costs no more than the signal allows', async () => {
  const silent = createServer()
  const port = await listen(silent)
  cleanups.push(() => silent.close())
  const [buyer, { peerId }] = await Promise.all([start(), createIdentity()])
  const began = performance.now()
  const opening = buyer.openStream(
    { peerId, addrs: [`/ip4/127.0.0.1/tcp/${port}`, `/ip4/127.0.0.1/udp/${port}/quic-v1`] },
    ECHO,
    within(200),
  )
  await expect(opening).rejects.toMatchObject({ code: 'PEER_UNREACHABLE', message: expect.stringContaining('in time') })
  expect(performance.now() - began).toBeLessThan(5_000)
})

test('a refused address fails at once and says so', async () => {
  const [buyer, { peerId }, port] = await Promise.all([start(), createIdentity(), freePort()])
  await expect(
    buyer.openStream({ peerId, addrs: [`/ip4/127.0.0.1/tcp/${port}`] }, ECHO, within(20_000)),
  ).rejects.toMatchObject({
    code: 'PEER_UNREACHABLE',
    message: expect.stringMatching(new RegExp(`ECONNREFUSED at /ip4/127.0.0.1/tcp/${port}$`)),
    cause: expect.anything(),
  })
})

test('a silent address does not delay the good address after it', async () => {
  const silent = createServer()
  const port = await listen(silent)
  cleanups.push(() => silent.close())
  const [buyer, seller] = await Promise.all([start(), startEcho()])
  const addrs = [`/ip4/127.0.0.1/tcp/${port}`, ...whereIs(seller, 'tcp').addrs]
  const stream = await buyer.openStream({ peerId: seller.peerId, addrs }, ECHO, within(7_000))
  expect(await ask(stream, 'hello')).toBe('hello')
})

test('a peer whose listed addresses are stale is found through the DHT', async () => {
  const middle = await start()
  const [buyer, seller] = await Promise.all([start(), startEcho()])
  await seller.openStream(whereIs(middle), '/ipfs/ping/1.0.0', within(30_000))
  await buyer.openStream(whereIs(middle), '/ipfs/ping/1.0.0', within(30_000))
  const stale = [`/ip4/127.0.0.1/tcp/${await freePort()}`]
  await until(() => buyer.speaks(middle.peerId, '/node/kad/1.0.0') && middle.speaks(seller.peerId, '/node/kad/1.0.0'))
  const stream = await buyer.openStream({ peerId: seller.peerId, addrs: stale }, ECHO, within(20_000))
  expect(await ask(stream, 'found')).toBe('found')
})

test('T20: a bootstrap node that comes up later is reached, and again after it was away', async () => {
  const [identity, port] = await Promise.all([createIdentity(), freePort()])
  const address = `/ip4/127.0.0.1/tcp/${port}/p2p/${identity.peerId}`
  const { logger, warnings } = noting()
  const host = await start({ bootstrap: [address], logger })
  await until(() =>
    warnings.some((line) => line.includes('bootstrap peer cannot be reached') && line.includes(address)),
  )
  for (let round = 0; round < 2; round++) {
    const bootstrap = await startTestHost({ identity, port })
    try {
      await until(() => connectedTo(host, bootstrap))
    } finally {
      await bootstrap.stop()
    }
    await until(() => host.peers().length === 0)
  }
})

test('peers that share a bootstrap node find each other', async () => {
  const middle = await start()
  const bootstrap = whereIs(middle, 'tcp').addrs
  const [a, b] = await Promise.all([start({ bootstrap }), start({ bootstrap })])
  await until(() => connectedTo(a, b))
})

test('T17: peers are remembered over a restart and reached again without bootstrap', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'stoa-p2p-')), 'stoa.db')
  const [identity, seller] = await Promise.all([createIdentity(), startEcho()])
  async function run(use: (host: Host) => Promise<unknown>): Promise<void> {
    const database = openDatabase({ path })
    const datastore = new PeerDatastore({}, { database, logger: silentLogger })
    const host = await startTestHost({ identity, datastore })
    try {
      await use(host)
    } finally {
      await host.stop()
      await datastore.stop()
      await database.close()
    }
  }
  await run((host) => host.openStream(whereIs(seller), ECHO, within(30_000)))
  await until(() => seller.peers().length === 0)
  await run((host) => until(() => connectedTo(host, seller)))
})

test('gossip reaches a peer that the sender is not connected to', async () => {
  const [a, b, c] = await Promise.all([start(), start(), createTestHost()])
  const received: [string, string][] = []
  a.subscribe(TOPIC, async () => 'accept')
  b.subscribe(TOPIC, async () => 'accept')
  c.subscribe(TOPIC, async (data, from) => {
    received.push([decode(data), from])
    return 'accept'
  })
  await c.start()
  cleanups.push(() => c.stop())
  await a.openStream(whereIs(b), '/ipfs/ping/1.0.0', within(30_000))
  await c.openStream(whereIs(b), '/ipfs/ping/1.0.0', within(30_000))
  await published(a, () => received.length > 0)
  expect(received[0]?.[0]).toMatch(/^news \d+$/)
  expect([a.peerId, b.peerId]).toContain(received[0]?.[1])
})

/** Publishes until somebody heard: the mesh forms a moment after the connection. Returns how often. */
async function published(host: Host, heard: () => boolean): Promise<number> {
  let count = 0
  await until(
    async () => {
      if (heard()) return true
      await host.publish(TOPIC, encode(`news ${count++}`))
      return false
    },
    { everyMs: 50 },
  )
  return count
}

test('gossip continues over another connection when its connection breaks', async () => {
  const gossip = new Gossip({ logger: silentLogger })
  const [host, raw] = await Promise.all([start(), startRaw(new MemoryDatastore(), gossip)])
  host.subscribe(TOPIC, async () => 'accept')
  const heard: string[] = []
  gossip.subscribe(TOPIC, async (data) => {
    heard.push(decode(data))
    return 'accept'
  })
  gossip.start()
  let identified = 0
  raw.addEventListener('peer:identify', () => {
    identified += 1
  })
  const first = await raw.dial(multiaddr(whereIs(host, 'tcp').addrs[0]!))
  await until(async () => (await host.publish(TOPIC, encode('before'))) > 0)
  const second = await raw.dial(multiaddr(whereIs(host, 'quic-v1').addrs[0]!), { force: true })
  await until(() => identified === 2 && second.streams.length === 0)
  let told = 0
  host.onPeerConnect(() => {
    told += 1
  })
  first.abort(new Error('its network is gone'))
  let count = 0
  await until(async () => {
    await host.publish(TOPIC, encode(`after ${++count}`))
    return heard.some((text) => text.startsWith('after'))
  })
  expect(told).toBe(1)
})

test('publishing with no peers resolves', async () => {
  const host = await start()
  await host.publish(TOPIC, encode('news'))
})

test.each<[Verdict, boolean]>([
  ['accept', true],
  ['ignore', false],
  ['reject', false],
])('a message judged "%s" is passed on: %s', async (verdict, passedOn) => {
  const { sender, middle, third, judged, heard } = await line(verdict)
  const hasNews = () => heard.some((text) => text.startsWith('news'))
  // The middle may have judged the first before it knew that the third listens.
  await published(sender, () => judged.length >= 2 && (!passedOn || hasNews()))
  // What the middle itself says comes after what it would have passed on.
  await until(
    async () => {
      await middle.publish(TOPIC, encode('the end'))
      return heard.includes('the end')
    },
    { everyMs: 50 },
  )
  expect(connectedTo(sender, third)).toBe(false)
  expect(hasNews()).toBe(passedOn)
})

test('D8, T3: a peer that sends rejected messages is soon no longer heard; one that sends ignored messages is', async () => {
  const ignoring = await line('ignore')
  await published(ignoring.sender, () => ignoring.judged.length >= 20)

  const rejecting = await line('reject')
  await published(rejecting.sender, () => rejecting.judged.length >= 3)
  let unheard = 0
  await until(async () => {
    const before = rejecting.judged.length
    await rejecting.sender.publish(TOPIC, encode('news again'))
    await heardOfThird(rejecting)
    unheard = rejecting.judged.length === before ? unheard + 1 : 0
    return unheard >= 10
  })
})

/** Resolves once the middle has heard something new from the third: what was sent before that had the time to come in. */
async function heardOfThird({ third, markers }: Awaited<ReturnType<typeof line>>): Promise<void> {
  // Gossip promises no single message: another follows until one has come.
  const before = markers.size
  const next = async () => {
    await third.publish(TOPIC, encode(`marker ${performance.now()}`))
    return markers.size > before
  }
  await until(next, { everyMs: 50 })
}

/** Three hosts in a row; only the one in the middle judges, and nobody looks for others. */
async function line(verdict: Verdict) {
  const quiet = { timing: { dialGapMs: 3_600_000 } }
  const [sender, middle, third] = await Promise.all([start(quiet), start(quiet), start(quiet)])
  const judged: string[] = []
  const heard: string[] = []
  const markers = new Set<string>()
  sender.subscribe(TOPIC, async () => 'accept')
  middle.subscribe(TOPIC, async (data, from) => {
    if (from === sender.peerId) judged.push(decode(data))
    else markers.add(decode(data))
    return from === sender.peerId ? verdict : 'accept'
  })
  third.subscribe(TOPIC, async (data) => {
    heard.push(decode(data))
    return 'accept'
  })
  await sender.openStream(whereIs(middle, 'tcp'), '/ipfs/ping/1.0.0', within(30_000))
  await third.openStream(whereIs(middle, 'tcp'), '/ipfs/ping/1.0.0', within(30_000))
  return { sender, middle, third, judged, heard, markers }
}

test('T16: an error names the port in use and the fix, and nothing is left listening', async () => {
  const holder = createServer()
  const port = await listen(holder)
  const host = await createTestHost({ port })
  await expect(host.start()).rejects.toMatchObject({
    code: 'PORT_IN_USE',
    message: expect.stringMatching(new RegExp(`${port}.*--port`)),
  })
  await new Promise((resolve) => holder.close(resolve))
  const next = await start({ port })
  expect(next.addresses()).toHaveLength(2)
})

test('T16: two nodes never share a port, though each would share it with its own dials', async () => {
  const port = await freePort()
  const one = await createTestHost({ port })
  const other = await createTestHost({ port })
  await one.start()
  cleanups.push(() => one.stop())
  await expect(other.start()).rejects.toMatchObject({ code: 'PORT_IN_USE' })
})

test('QUIC that cannot listen alone is a warning: TCP works', async () => {
  const udp = createSocket('udp4')
  const port = await freePort()
  await new Promise<void>((resolve) => udp.bind(port, '127.0.0.1', resolve))
  cleanups.push(() => udp.close())
  const { logger, warnings } = noting()
  const seller = await startEcho({ port, logger })
  expect(warnings).toEqual([expect.stringContaining(`/udp/${port}/quic-v1`)])
  expect(seller.addresses()).toEqual([expect.stringContaining(`/tcp/${port}`)])
  const buyer = await start()
  expect(await ask(await buyer.openStream(whereIs(seller), ECHO, within(30_000)), 'hello')).toBe('hello')
})

test('an address that is not this machine’s is LISTEN_FAILED', async () => {
  const host = await createTestHost({ listenHosts: ['192.0.2.123'] })
  await expect(host.start()).rejects.toMatchObject({
    code: 'LISTEN_FAILED',
    message: expect.stringContaining('192.0.2.123'),
  })
})

test('TCP and QUIC listen on the same port number', async () => {
  const port = await freePort()
  const host = await start({ port })
  expect(host.addresses()).toEqual([
    `/ip4/127.0.0.1/tcp/${port}/p2p/${host.peerId}`,
    `/ip4/127.0.0.1/udp/${port}/quic-v1/p2p/${host.peerId}`,
  ])
})

test('an announced address is added to the others, and is announced', async () => {
  const [a, b] = await Promise.all([start({ announce: ['/ip4/9.9.9.9/tcp/4001'] }), start()])
  expect(a.addresses()[0]).toBe(`/ip4/9.9.9.9/tcp/4001/p2p/${a.peerId}`)
  expect(a.addresses()).toHaveLength(3)
  await b.openStream(whereIs(a, 'quic-v1'), '/ipfs/ping/1.0.0', within(30_000))
})

test('a malformed address stops the host before it is built', async () => {
  await expect(createTestHost({ bootstrap: ['/ip4/127.0.0.1/tcp/4001'] })).rejects.toMatchObject({
    code: 'BAD_MULTIADDR',
  })
  await expect(createTestHost({ announce: ['4001'] })).rejects.toMatchObject({ code: 'BAD_MULTIADDR' })
  await expect(createTestHost({ listenHosts: ['localhost'] })).rejects.toMatchObject({ code: 'BAD_LISTEN_HOST' })
})

test('a change of the machine’s addresses is noticed, each time', async () => {
  const host = await start({ listenHosts: ['0.0.0.0'] })
  let changes = 0
  const stop = host.onAddressesChange(() => {
    changes += 1
  })
  const interfaces = os.networkInterfaces()
  for (const address of ['10.99.0.1', '10.99.0.2']) {
    const before = changes
    const added = { address, netmask: '255.0.0.0', family: 'IPv4' as const, mac: '', internal: false, cidr: null }
    vi.spyOn(os, 'networkInterfaces').mockReturnValue({ ...interfaces, added0: [added] })
    await until(() => changes > before)
    expect(host.addresses().some((text) => text.startsWith(`/ip4/${address}/tcp/`))).toBe(true)
  }
  stop()
})

test('T20: a public address that nobody has proved is not announced, and the operator learns how to announce it', async () => {
  const added = {
    address: '9.9.9.9',
    netmask: '255.0.0.0',
    family: 'IPv4' as const,
    mac: '',
    internal: false,
    cidr: null,
  }
  vi.spyOn(os, 'networkInterfaces').mockReturnValue({ public0: [added] })
  const { logger, warnings } = noting()
  const host = await start({ listenHosts: ['0.0.0.0'], logger })
  expect(host.addresses().some((address) => address.includes('9.9.9.9'))).toBe(false)
  expect(warnings).toEqual([expect.stringContaining('NODE_ANNOUNCE_ADDR=/ip4/9.9.9.9/tcp/')])
})

test('peers are reported as they connect, until the listener is removed', async () => {
  const [a, b, c] = await Promise.all([start(), start(), start()])
  const told: string[] = []
  const stop = a.onPeerConnect((peerId) => told.push(peerId))
  await b.openStream(whereIs(a), '/ipfs/ping/1.0.0', within(30_000))
  await until(() => told.length > 0)
  stop()
  await c.openStream(whereIs(a), '/ipfs/ping/1.0.0', within(30_000))
  await until(() => connectedTo(a, c))
  expect(told).toEqual([b.peerId])
})

test('T7: a connection that died silently is noticed and closed', async () => {
  const seller = await startEcho()
  const proxy = new FreezableProxy(portOf(seller))
  await proxy.start()
  cleanups.push(() => proxy.stop())
  const buyer = await start({ timing: { pingTimeoutMs: 1_000 } })
  await buyer.openStream({ peerId: seller.peerId, addrs: [`/ip4/127.0.0.1/tcp/${proxy.port}`] }, ECHO, within(30_000))
  await until(() => buyer.peers()[0]?.latencyMs !== undefined)
  proxy.freeze()
  await until(() => buyer.peers().length === 0)
})

test('a stream to a peer whose connection has silently died is opened over a new one', async () => {
  const seller = await startEcho()
  const proxy = new FreezableProxy(portOf(seller))
  await proxy.start()
  cleanups.push(() => proxy.stop())
  const buyer = await start({ timing: { stalledMs: 100, pingEveryMs: 3_600_000 } })
  const addrs = [`/ip4/127.0.0.1/tcp/${proxy.port}`]
  await buyer.openStream({ peerId: seller.peerId, addrs }, ECHO, within(30_000))
  proxy.freeze()
  const stream = await buyer.openStream(whereIs(seller, 'tcp'), ECHO, within(30_000))
  expect(await ask(stream, 'hello')).toBe('hello')
})

const portOf = (host: Host) => Number(/\/tcp\/(\d+)/.exec(host.addresses()[0]!)?.[1])

test('stopping is quick with peers connected, and stopping twice or before a start does no harm', async () => {
  const [a, b] = await Promise.all([startTestHost(), startEcho()])
  await a.openStream(whereIs(b), ECHO, within(30_000))
  const began = performance.now()
  await a.stop()
  expect(performance.now() - began).toBeLessThan(10_000)
  await a.stop()
  await (await createTestHost()).stop()
})
