/** What others say does not make a node forget whom it met (D52). */
import { generateKeyPair } from '@libp2p/crypto/keys'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { MemoryDatastore } from 'datastore-core/memory'
import { afterEach, expect, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { Gossip } from '../../src/p2p/gossip.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { createModules } from '../../src/p2p/modules.ts'
import { ECHO, honestP99, startVictim, within } from '../support/attack.ts'
import { bearable } from '../support/honest-calls.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

test('D52 T30: a peer store full of hearsay pushes out no honest peer: it is met again after a restart, and called as before', {
  retry: 2,
}, async () => {
  const [datastore, identity, honest] = [new MemoryDatastore(), await createIdentity(), await startVictim()]
  cleanups.push(() => honest.stop())
  const before = await startTestHost({ identity, datastore })
  const calls = await before.openStream(whereIs(honest, 'tcp'), ECHO, within(60_000))
  await honestP99(calls, 100)
  const quiet = await honestP99(calls, 200)
  await until(() => before.speaks(honest.peerId, ECHO))
  await before.stop()
  await until(() => honest.peers().length === 0)

  // What 2 MB of answers leave behind.
  const told = await createModules(
    { port: 0, listenHosts: ['127.0.0.1'], announce: [], mdns: false, version: '0' },
    { identity, datastore, gossip: new Gossip({ logger: silentLogger }), logger: silentLogger, found: () => {} },
  )
  for (let count = 0; count < 2100; count++) {
    const peer = peerIdFromPrivateKey(await generateKeyPair('Ed25519'))
    const place = multiaddr(`/ip4/127.9.${count >> 8}.${count & 255}/tcp/1`)
    await told.libp2p.peerStore.merge(peer, { multiaddrs: [place] })
  }

  const after = await startTestHost({ identity, datastore })
  cleanups.push(() => after.stop())
  await until(() => after.peers().some(({ peerId }) => peerId === honest.peerId))
  expect(await after.probe({ peerId: honest.peerId, addrs: [] }, within(30_000))).toBeGreaterThan(0)
  const again = await after.openStream({ peerId: honest.peerId, addrs: [] }, ECHO, within(60_000))
  await honestP99(again, 100)
  expect(await honestP99(again, 200)).toBeLessThan(bearable(quiet))
})
