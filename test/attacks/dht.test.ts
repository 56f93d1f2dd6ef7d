/** What answers of the DHT make a node do, and what its own answers survive (D52). */
import { createServer } from 'node:net'
import { generateKeyPair } from '@libp2p/crypto/keys'
import type { PeerId, Stream } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { lpStream } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'
import { MemoryDatastore } from 'datastore-core/memory'
import { Key } from 'interface-datastore/key'
import { CID } from 'multiformats/cid'
import { sha256 } from 'multiformats/hashes/sha2'
import { afterEach, expect, test } from 'vitest'
import { attack, ECHO, echo, startAttacker, startVictim, within } from '../support/attack.ts'
import { ADD_PROVIDER, dhtMessage, FIND_NODE, GET_PROVIDERS } from '../support/dht-message.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const DHT = '/node/kad/1.0.0'
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const stranger = async (): Promise<PeerId> => peerIdFromPrivateKey(await generateKeyPair('Ed25519'))

test('D52 T31: answers that name one place a thousand times make a node neither dial it as often nor slow', {
  retry: 2,
}, async () => {
  let knocks = 0
  const target = createServer((socket) => {
    knocks += 1
    socket.destroy()
  })
  const port = await new Promise<number>((resolve) => {
    target.listen(0, '127.0.0.9', () => resolve((target.address() as { port: number }).port))
  })
  cleanups.push(() => target.close())

  const victim = await startVictim()
  const honest = await startTestHost()
  const liar = await startAttacker('127.0.0.2')
  for (const host of [victim, honest, liar]) cleanups.push(() => host.stop())
  let answers = 0
  await liar.handle(DHT, (stream: Stream) => {
    void (async () => {
      const wire = lpStream(stream)
      for (;;) {
        await wire.read({ signal: within(10_000) })
        answers += 1
        const place = [multiaddr(`/ip4/127.0.0.9/tcp/${port}`)]
        const closer = await Promise.all(
          Array.from({ length: 20 }, async () => ({ id: await stranger(), multiaddrs: place })),
        )
        stream.send(dhtMessage(FIND_NODE, { key: new Uint8Array(32), closer }))
      }
    })().catch(() => {})
  })
  await attack(liar, victim)
  await until(() => answers > 0)
  // The victim is made to ask: an unknown peer is looked up.
  const stream = await honest.openStream(whereIs(victim, 'tcp'), ECHO, within(60_000))
  await expectBearable(
    () => echo(stream),
    async () => {
      for (let asked = 0; asked < 15; asked++) {
        const peerId = (await stranger()).toString()
        await victim.openStream({ peerId, addrs: [] }, ECHO, within(400)).catch(() => {})
      }
    },
  )
  expect(answers).toBeGreaterThan(5)
  expect(knocks).toBeLessThan(100)
})

test('D52: GET_PROVIDERS names the known providers even if the peer store has forgotten one of them', async () => {
  const datastore = new MemoryDatastore()
  const victim = await startVictim({ datastore })
  cleanups.push(() => victim.stop())
  const key = CID.createV1(0x55, await sha256.digest(new Uint8Array(8))).bytes
  const providers = await Promise.all(['127.0.0.2', '127.0.0.3'].map((ip) => startAttacker(ip)))
  for (const peer of providers) cleanups.push(() => peer.stop())
  for (const peer of providers) {
    const connection = await attack(peer, victim)
    const stream = await connection.newStream(DHT, { signal: within(30_000) })
    stream.send(dhtMessage(ADD_PROVIDER, { key, providers: [{ id: peer.peerId, multiaddrs: peer.getMultiaddrs() }] }))
    await stream.close()
  }
  const [lost, known] = providers as [(typeof providers)[0], (typeof providers)[0]]
  const ask = async () => {
    const connection = await attack(known, victim)
    const stream = await connection.newStream(DHT, { signal: within(30_000) })
    stream.send(dhtMessage(GET_PROVIDERS, { key }))
    return Buffer.from((await lpStream(stream).read({ signal: within(30_000) })).subarray())
  }
  const names = (answer: Buffer, id: PeerId) => answer.includes(id.toMultihash().bytes)
  await until(async () => names(await ask(), lost.peerId) && names(await ask(), known.peerId))
  await lost.stop()
  await until(() => !victim.peers().some(({ peerId }) => peerId === lost.peerId.toString()))
  await datastore.delete(new Key(`/peers/${lost.peerId.toCID()}`))
  const answer = await ask()
  expect(names(answer, known.peerId)).toBe(true)
})
