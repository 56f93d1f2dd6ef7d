import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { MemoryDatastore } from 'datastore-core/memory'
import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { until } from '../../test/support/until.ts'
import { silentLogger } from '../lib/logger.ts'
import { DHT_PROTOCOL } from './dht.ts'
import { createIdentity } from './identity.ts'
import type { Node } from './modules.ts'
import { ReachedPeers } from './reached-peers.ts'

const DAY_MS = 24 * 60 * 60 * 1000

function setup(datastore = new MemoryDatastore(), clock = new HandClock()) {
  const libp2p = new EventTarget()
  const reached = new ReachedPeers({ libp2p: libp2p as unknown as Node, datastore, clock, logger: silentLogger })
  const meet = async (host: string, { direction = 'outbound', protocols = [DHT_PROTOCOL], relayed = false } = {}) => {
    const { peerId } = await createIdentity()
    const connection = {
      direction,
      limits: relayed ? {} : undefined,
      remotePeer: peerIdFromString(peerId),
      remoteAddr: multiaddr(`/ip4/${host}/tcp/4001/p2p/${peerId}`),
    }
    libp2p.dispatchEvent(new CustomEvent('peer:identify', { detail: { connection, protocols } }))
    return peerId
  }
  const ids = async () => (await reached.list()).map(({ id }) => id.toString())
  return { reached, meet, ids, datastore, clock }
}

test('D52: a peer of the market that was dialed is remembered over a restart, the last one first', async () => {
  const { meet, ids, datastore, clock } = setup()
  const first = await meet('9.9.9.9')
  clock.set(clock.now() + 1)
  const last = await meet('8.8.8.8')
  await until(async () => (await ids()).length === 2)
  expect(await setup(datastore, clock).ids()).toEqual([last, first])
})

test('D52: nobody is remembered who came by itself, over a relay, or is not of the market', async () => {
  const { meet, ids } = setup()
  await meet('9.9.9.9', { direction: 'inbound' })
  await meet('9.9.9.9', { relayed: true })
  await meet('9.9.9.9', { protocols: ['/ipfs/kad/1.0.0'] })
  const met = await meet('9.9.9.9')
  await until(async () => (await ids()).length > 0)
  expect(await ids()).toEqual([met])
})

test('D52 T30: many names at one address do not push out others', async () => {
  const { meet, ids } = setup()
  const honest = await meet('8.8.8.8')
  for (let count = 0; count < 60; count++) await meet('9.9.9.9')
  await until(async () => (await ids()).length === 33)
  expect(await ids()).toContain(honest)
})

test('a peer not reached for a month is forgotten, and so is an entry that cannot be read', async () => {
  const { meet, ids, datastore, clock } = setup()
  await meet('8.8.8.8')
  await until(async () => (await ids()).length === 1)
  clock.set(clock.now() + 31 * DAY_MS)
  expect(await setup(datastore, clock).ids()).toEqual([])
})
