/** Liars do not take a node off its relays, nor have it announce a stranger's address (D52). */
import os from 'node:os'
import { circuitRelayServer } from '@libp2p/circuit-relay-v2'
import type { Stream } from '@libp2p/interface'
import { lpStream } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'
import type { Libp2p } from 'libp2p'
import { afterEach, expect, test, vi } from 'vitest'
import type { Host } from '../../src/p2p/host.ts'
import { ECHO, honestP99, startAttacker, within } from '../support/attack.ts'
import { bearable } from '../support/honest-calls.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const STRANGER = '9.9.9.9'
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  vi.restoreAllMocks()
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()))
})

const relayedOf = (host: Host) => host.addresses().filter((address) => address.includes('/p2p-circuit/'))

/** Says to whoever comes that it comes from a stranger's address, and that it reached it there. @returns how often it was asked */
async function startLiar(ip: string): Promise<{ liar: Libp2p; asked(): number }> {
  let asked = 0
  const liar = await startAttacker(ip)
  cleanups.push(() => liar.stop())
  await liar.handle('/libp2p/autonat/2/dial-request', (stream: Stream) => {
    void (async () => {
      await lpStream(stream).read({ signal: within(30_000) })
      asked += 1
      // dialResponse: status OK, address 0, dial OK
      await lpStream(stream).write(Uint8Array.from(Buffer.from('120808c801100018c801', 'hex')))
    })().catch(() => {})
  })
  const identify = (
    liar.services as unknown as { identify: { handleProtocol(stream: Stream, connection: object): unknown } }
  ).identify
  const tell = identify.handleProtocol.bind(identify)
  await liar.unhandle('/ipfs/id/1.0.0')
  await liar.handle('/ipfs/id/1.0.0', (stream, connection) => {
    const remoteAddr = multiaddr(`/ip4/${STRANGER}/tcp/55555`)
    void tell(
      stream,
      new Proxy(connection, {
        get: (target, name) => (name === 'remoteAddr' ? remoteAddr : Reflect.get(target, name)),
      }),
    )
  })
  return { liar, asked: () => asked }
}

test('D52 T30: two liars neither take a node off its relay nor have it announce a stranger’s address, nor slow it', {
  retry: 2,
}, async () => {
  // A relay that dials nobody back: a stranger's address must not be dialed by this test either.
  const relay = await startAttacker('127.0.0.1', { services: { relay: circuitRelayServer() } })
  const { lo } = os.networkInterfaces()
  const outside = [{ ...lo![0]!, address: '192.168.7.7', internal: false }]
  vi.spyOn(os, 'networkInterfaces').mockReturnValue({ lo, eth0: outside as NonNullable<typeof lo> })
  const timing = { proofLookMs: 10, proofEveryMs: 100 }
  const seller = await startTestHost({
    listenHosts: ['0.0.0.0'],
    relays: [relay.getMultiaddrs()[0]!.toString()],
    timing,
  })
  await seller.handle(ECHO, (stream) => stream.addEventListener('message', ({ data }) => stream.send(data)), {
    relayed: true,
  })
  cleanups.push(
    () => relay.stop(),
    () => seller.stop(),
  )
  await until(() => relayedOf(seller).length > 0)
  const honest = await startTestHost()
  cleanups.push(() => honest.stop())
  const calls = await honest.openStream(whereIs(seller, 'tcp'), ECHO, within(60_000))
  await honestP99(calls, 100)
  const quiet = Math.min(await honestP99(calls, 100), await honestP99(calls, 100))
  const liars = await Promise.all(['127.1.0.1', '127.2.0.1'].map(startLiar))
  for (const { liar } of liars) {
    const addrs = liar.getMultiaddrs().map(String)
    await seller.probe({ peerId: liar.peerId.toString(), addrs }, within(5000)).catch(() => {})
    await seller.openStream({ peerId: liar.peerId.toString(), addrs }, '/ipfs/ping/1.0.0', within(30_000))
  }
  const isBelieved = () => seller.addresses().some((address) => address.includes(STRANGER))
  const lied = until(() => isBelieved() || liars.every(({ asked }) => asked() > 0))
  const beside = await honestP99(calls, 100, lied)
  await lied
  // The answer is judged when no nonce has come a second after it.
  const judged = performance.now() + 1500
  await until(() => isBelieved() || performance.now() > judged)
  expect(isBelieved()).toBe(false)
  expect(beside).toBeLessThan(bearable(quiet))
  expect(relayedOf(seller)).not.toEqual([])
  expect(seller.reachability().state).toBe('relayed')
})
