import type { PeerInfo } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { Discovery } from './discovery.ts'
import { createIdentity } from './identity.ts'
import type { Node } from './modules.ts'
import type { PeerAddresses } from './multiaddrs.ts'

const own = peerIdFromString('12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN')
const address = multiaddr('/ip4/9.9.9.9/tcp/4001')
let ending = new AbortController()

afterEach(() => {
  ending.abort()
  ending = new AbortController()
})

async function somebody(): Promise<PeerInfo> {
  return { id: peerIdFromString((await createIdentity()).peerId), multiaddrs: [address] }
}

/** A discovery that runs, and what it asks of its host. */
function running(
  dial: (peer: PeerAddresses) => Promise<unknown>,
  { outbound = 0, remembered = [] as PeerInfo[], reached = [] as PeerInfo[] } = {},
) {
  const connected = new Set<string>()
  const peers = remembered.map(({ id, multiaddrs }) => ({
    id,
    addresses: multiaddrs.map((multiaddr) => ({ multiaddr, isCertified: false })),
    metadata: new Map(),
  }))
  const libp2p = Object.assign(new EventTarget(), {
    peerId: own,
    getConnections: () => Array.from({ length: outbound }, () => ({ direction: 'outbound' })),
    peerStore: { all: async () => peers },
  })
  const dialed: string[] = []
  const discovery = new Discovery(
    { dialGapMs: 0, rejoinEveryMs: 3_600_000 },
    {
      libp2p: libp2p as unknown as Node,
      logger: silentLogger satisfies Logger,
      connected: (peerId) => connected.has(peerId),
      reached: async () => reached,
      dial: (peer) => {
        dialed.push(peer.peerId)
        return dial(peer)
      },
    },
  )
  void discovery.run(ending.signal)
  return { discovery, dialed, connected, libp2p }
}

test('a peer that is found is dialed, no matter how it was found', async () => {
  const [seen, remembered] = await Promise.all([somebody(), somebody()])
  const { dialed, libp2p } = running(async () => {}, { remembered: [remembered] })
  libp2p.dispatchEvent(new CustomEvent('peer:discovery', { detail: seen }))
  await until(() => dialed.length === 2)
  expect(dialed.toSorted()).toEqual([seen, remembered].map(({ id }) => id.toString()).toSorted())
})

test('this node itself and peers that are connected are not dialed', async () => {
  const [friend, other] = await Promise.all([somebody(), somebody()])
  const { discovery, dialed, connected } = running(async () => {})
  connected.add(friend.id.toString())
  discovery.offer(friend)
  discovery.offer({ id: own, multiaddrs: [address] })
  discovery.offer(other)
  await until(() => dialed.length > 0)
  expect(dialed).toEqual([other.id.toString()])
})

test('T7: a flood of peers is dialed a few at a time, and no more of them are kept than are useful', async () => {
  const flood = await Promise.all(Array.from({ length: 300 }, somebody))
  const { promise, resolve } = Promise.withResolvers<void>()
  const { discovery, dialed } = running(() => promise)
  for (const peer of flood) discovery.offer(peer)
  await until(() => dialed.length === 8)
  expect(dialed).toHaveLength(8)
  resolve()
  await until(() => dialed.length >= 256)
  expect(dialed).toHaveLength(256)
})

test('a peer that could not be reached is not dialed for a while', async () => {
  const [gone, next] = await Promise.all([somebody(), somebody()])
  const { discovery, dialed } = running(async () => {
    throw new Error('nobody there')
  })
  discovery.offer(gone)
  await until(() => dialed.length === 1)
  discovery.offer(next)
  await until(() => dialed.length === 2)
  discovery.offer(gone)
  discovery.offer(await somebody())
  await until(() => dialed.length === 3)
  expect(dialed.filter((peerId) => peerId === gone.id.toString())).toHaveLength(1)
})

test('a node with enough connections of its own searches for no more', async () => {
  const { discovery, dialed } = running(async () => {}, { outbound: 100, remembered: [await somebody()] })
  discovery.offer(await somebody())
  await new Promise((resolve) => setImmediate(resolve))
  expect(dialed).toEqual([])
})

test('D52: peers that were reached are dialed before all hearsay, even where that has filled the queue', async () => {
  const hearsay = await Promise.all(Array.from({ length: 300 }, somebody))
  const reached = [await somebody(), await somebody()]
  const { dialed, discovery } = running(async () => {}, { reached })
  for (const peer of hearsay) discovery.offer(peer)
  await until(() => dialed.length > 20)
  const places = reached.map(({ id }) => dialed.indexOf(id.toString()))
  expect(Math.max(...places)).toBeLessThan(10)
  expect(Math.min(...places)).toBeGreaterThanOrEqual(0)
})
