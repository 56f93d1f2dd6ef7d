/** The places of a relay cannot be hoarded (D52), and its limits are said as the specification has them. */
import type { Connection } from '@libp2p/interface'
import { lpStream } from '@libp2p/utils'
import type { Libp2p } from 'libp2p'
import { afterEach, expect, test } from 'vitest'
import type { Host } from '../../src/p2p/host.ts'
import { attack, ECHO, echo, startAttacker, startVictim, within } from '../support/attack.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const HOP = '/libp2p/circuit/relay/0.2.0/hop'
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()))
})

/** Asks for a place. @returns the bytes of the answer */
async function reserve(connection: Connection): Promise<Buffer> {
  const stream = await connection.newStream(HOP, { signal: within(30_000) })
  const wire = lpStream(stream)
  // type: RESERVE
  await wire.write(Uint8Array.of(0x08, 0))
  return Buffer.from((await wire.read({ signal: within(30_000) })).subarray())
}

/** The status stands last: field 5, 100 is OK. */
const isGiven = (answer: Buffer) => answer.subarray(-2).equals(Buffer.from([0x28, 100]))

async function crowd(relay: Host, ip: string, count: number): Promise<{ peers: Libp2p[]; given: number }> {
  const peers = await Promise.all(Array.from({ length: count }, () => startAttacker(ip)))
  cleanups.push(...peers.map((peer) => () => peer.stop()))
  let given = 0
  for (const peer of peers) if (isGiven(await reserve(await attack(peer, relay)))) given += 1
  return { peers, given }
}

test('D52 T29: many peer ids at one address get eight reservations of a relay, and a seller elsewhere gets its own', async () => {
  const relay = await startVictim({ relay: true })
  cleanups.push(() => relay.stop())
  const { given } = await crowd(relay, '127.0.0.2', 16)
  expect(given).toBe(8)
  const seller = await startTestHost({ relays: [whereIs(relay, 'tcp').addrs[0]!] })
  cleanups.push(() => seller.stop())
  await until(() => seller.addresses().some((address) => address.includes('/p2p-circuit/')))
})

test('D52: a place is free again when its holder has left', async () => {
  const relay = await startVictim({ relay: true })
  cleanups.push(() => relay.stop())
  const { peers } = await crowd(relay, '127.0.0.2', 8)
  await Promise.all(peers.map((peer) => peer.stop()))
  await until(() => relay.peers().length === 0)
  expect((await crowd(relay, '127.0.0.2', 1)).given).toBe(1)
})

test('a relay says its limit of time in seconds, as circuit relay v2 has it', async () => {
  const relay = await startVictim({ relay: true })
  const peer = await startAttacker('127.0.0.2')
  cleanups.push(
    () => relay.stop(),
    () => peer.stop(),
  )
  const answer = await reserve(await attack(peer, relay))
  // limit, field 4: duration 600, data 64 MiB
  expect(answer.toString('hex')).toContain('220808d8041080808020')
})

test('D52: peers that endlessly ask for reservations leave an honest peer’s calls as quick as before', {
  retry: 2,
}, async () => {
  const [relay, honest] = [await startVictim({ relay: true }), await startTestHost()]
  const peers = await Promise.all(Array.from({ length: 12 }, () => startAttacker('127.0.0.2')))
  cleanups.push(...[relay, honest, ...peers].map((one) => () => one.stop()))
  const calls = await honest.openStream(whereIs(relay, 'tcp'), ECHO, within(60_000))
  for (const peer of peers) await attack(peer, relay)
  await expectBearable(
    () => echo(calls),
    async () => {
      for (let count = 0; count < 60; count++) {
        const connection = await attack(peers[count % peers.length]!, relay)
        await reserve(connection)
        // Now and then one leaves and comes again.
        if (count % 15 === 0) await connection.close()
      }
    },
  )
})
