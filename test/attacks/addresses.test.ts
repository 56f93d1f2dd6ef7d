/** What one peer says of addresses, its own or others', does not stop a node (D52). */
import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { CID } from 'multiformats/cid'
import { sha256 } from 'multiformats/hashes/sha2'
import { afterEach, expect, test } from 'vitest'
import { attack, ECHO, honestP99, startAttacker, startVictim, within } from '../support/attack.ts'
import { ADD_PROVIDER, dhtMessage } from '../support/dht-message.ts'
import { bearable } from '../support/honest-calls.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

test('D52 T31: a peer with 2,500 addresses and a thousand messages about them does not slow an honest call', {
  retry: 2,
}, async () => {
  const [victim, honest, attacker] = [await startVictim(), await startTestHost(), await startAttacker('127.0.0.2')]
  for (const host of [victim, honest, attacker]) cleanups.push(() => host.stop())
  const calls = await honest.openStream(whereIs(victim, 'tcp'), ECHO, within(60_000))
  await honestP99(calls, 200)
  const quiet = await honestP99(calls, 300)

  const connection = await attack(attacker, victim)
  const key = CID.createV1(0x55, await sha256.digest(new Uint8Array(8))).bytes
  const provider = (from: number, count: number) => ({
    id: peerIdFromString(attacker.peerId.toString()),
    multiaddrs: Array.from({ length: count }, (_, at) =>
      multiaddr(`/ip4/127.9.${(from + at) >> 8}.${(from + at) & 255}/tcp/4001`),
    ),
  })
  const messages = [
    ...Array.from({ length: 25 }, (_, at) => dhtMessage(ADD_PROVIDER, { key, providers: [provider(at * 100, 100)] })),
    ...Array.from({ length: 1000 }, (_, at) => dhtMessage(ADD_PROVIDER, { key, providers: [provider(3000 + at, 1)] })),
  ]
  const flood = (async () => {
    for (let at = 0; at < messages.length; at += 50) {
      const stream = await connection.newStream('/node/kad/1.0.0', { signal: within(30_000) }).catch(() => undefined)
      for (const message of messages.slice(at, at + 50)) if (stream?.status === 'open') stream.send(message)
      await stream?.close({ signal: within(30_000) }).catch(() => {})
    }
  })()
  const p99 = await honestP99(calls, 300, flood)
  expect(p99).toBeLessThan(bearable(quiet))
})
