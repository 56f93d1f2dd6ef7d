import type { Connection } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { MemoryDatastore } from 'datastore-core/memory'
import type { Key } from 'interface-datastore'
import { afterEach, expect, test, vi } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { Gossip } from './gossip.ts'
import { createIdentity } from './identity.ts'
import { renewAddresses } from './libp2p-fixes/address-age.ts'
import { createModules, type Node } from './modules.ts'

const peer = peerIdFromString('12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5')
const address = multiaddr('/ip4/9.9.9.9/tcp/4001')
const HOUR_MS = 60 * 60 * 1000

afterEach(() => vi.useRealTimers())

/** A libp2p node that is built but never started. */
async function build(datastore = new MemoryDatastore()): Promise<Node> {
  const gossip = new Gossip({ logger: silentLogger })
  const { libp2p } = await createModules(
    { port: 0, listenHosts: ['127.0.0.1'], announce: [], mdns: false, version: '0.0.0' },
    { identity: await createIdentity(), datastore, gossip, logger: silentLogger, found: () => {} },
  )
  return libp2p
}

/** Counts writes. */
class CountingDatastore extends MemoryDatastore {
  puts = 0

  override put(key: Key, value: Uint8Array): Key | Promise<Key> {
    this.puts += 1
    return super.put(key, value)
  }
}

test('T17: the addresses of a peer that stays connected are known for longer than a week', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: 0 })
  const libp2p = await build()
  const { peerStore } = libp2p
  await peerStore.merge(peer, { multiaddrs: [address], protocols: ['/x/1'], tags: { close: { value: 7 } } })
  for (const hour of [100, 200]) {
    vi.setSystemTime(hour * HOUR_MS)
    await renewAddresses(libp2p, peer)
  }
  const kept = await peerStore.get(peer)
  expect(kept.addresses.map(({ multiaddr }) => multiaddr.toString())).toEqual([address.toString()])
  expect(kept.protocols).toEqual(['/x/1'])
  expect(kept.tags.get('close')?.value).toBe(7)

  vi.setSystemTime(375 * HOUR_MS)
  expect((await peerStore.get(peer)).addresses).toEqual([])
})

test('a protocol that a peer is known to speak is not written again for every stream', async () => {
  const datastore = new CountingDatastore()
  const libp2p = await build(datastore)
  const { peerStore } = libp2p
  vi.spyOn(libp2p, 'getConnections').mockReturnValue([{} as Connection])
  await peerStore.merge(peer, { protocols: ['/x/1', '/x/2'] })
  const { puts } = datastore
  for (let stream = 0; stream < 10; stream++) await peerStore.merge(peer, { protocols: ['/x/1'] })
  expect(datastore.puts).toBe(puts)
  await peerStore.merge(peer, { protocols: ['/x/3'] })
  expect(datastore.puts).toBe(puts + 1)
  expect((await peerStore.get(peer)).protocols).toEqual(['/x/1', '/x/2', '/x/3'])
})

test('a protocol that a peer has given up is written when it speaks it again', async () => {
  const { peerStore } = await build()
  await peerStore.merge(peer, { protocols: ['/x/1'] })
  await peerStore.patch(peer, { protocols: [] })
  await peerStore.merge(peer, { protocols: ['/x/1'] })
  expect((await peerStore.get(peer)).protocols).toEqual(['/x/1'])
  await peerStore.delete(peer)
  await peerStore.merge(peer, { protocols: ['/x/1'] })
  expect((await peerStore.get(peer)).protocols).toEqual(['/x/1'])
})

test('T3: addresses that this node must not dial are neither remembered nor dialed', async () => {
  const libp2p = await build()
  const hostile = [multiaddr('/unix/%2Fvar%2Frun%2Fdocker.sock'), multiaddr('/ip4/0.0.0.0/tcp/4001')]
  await libp2p.peerStore.merge(peer, { multiaddrs: [address, ...hostile] })
  const kept = (await libp2p.peerStore.get(peer)).addresses.map(({ multiaddr }) => multiaddr.toString())
  expect(kept).toEqual([address.toString()])
  for (const one of hostile) expect(await libp2p.isDialable(one)).toBe(false)
  expect(await libp2p.isDialable(address)).toBe(true)
})
