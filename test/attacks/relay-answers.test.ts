/** A relay that names very many addresses, or addresses of others, is not announced, and costs a node nothing (T7, T30, T32). */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Stream } from '@libp2p/interface'
import { lpStream } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, expect, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import type { Host } from '../../src/p2p/host.ts'
import { attack, startAttacker, startVictim, within } from '../support/attack.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const HOP = '/libp2p/circuit/relay/0.2.0/hop'
const STRANGER = '12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5'
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()))
})

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) | 128, ...varint(Math.floor(value / 128))]
}

const field = (number: number, bytes: Uint8Array) =>
  Buffer.concat([Uint8Array.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes])

/** OK, with a reservation for an hour at these addresses. */
function reservation(addrs: readonly Uint8Array[]): Uint8Array {
  const expire = Uint8Array.from([0x08, ...varint(Math.floor(Date.now() / 1000) + 3600)])
  const body = Buffer.concat([expire, ...addrs.map((bytes) => field(2, bytes))])
  return Buffer.concat([Uint8Array.of(0x08, 2), field(3, body), Uint8Array.of(0x28, 100)])
}

function places(count: number): Uint8Array[] {
  return Array.from({ length: count }, (_, at) => {
    const bytes = Uint8Array.from(multiaddr('/ip4/9.9.9.9/tcp/1000').bytes)
    bytes.set([9, at >> 16, (at >> 8) & 255, at & 255], 1)
    return bytes
  })
}

const relayedOf = (host: Host) => host.addresses().filter((address) => address.includes('/p2p-circuit/'))

/** A node that reserves at a relay with this answer. `warned`: what the node logs of it. */
async function reserveAt(answer: Uint8Array) {
  const relay = await startAttacker('127.0.0.2')
  cleanups.push(() => relay.stop())
  let asked = 0
  await relay.handle(HOP, async (stream: Stream) => {
    const wire = lpStream(stream)
    await wire.read()
    asked += 1
    await wire.write(answer).catch(() => {})
    await stream.close().catch(() => {})
  })
  const warned: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void warned.push(message) }
  const host = await startTestHost({ relays: [relay.getMultiaddrs()[0]!.toString()], logger })
  cleanups.push(() => host.stop())
  return { host, warned, asked: () => asked }
}

test('T7 T32: a relay that answers with 40,000 addresses is refused before they are read, and not asked again', async () => {
  const answer = reservation(places(40_000))
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const { host, warned, asked } = await reserveAt(answer)
  delay.enable()
  await until(() => warned.includes('a relay gave no reservation'))
  await until(() => host.peers().length === 1)
  delay.disable()
  expect(relayedOf(host)).toEqual([])
  expect(asked()).toBe(1)
  expect(delay.max / 1e6).toBeLessThan(1_000)
})

test('T7: of a relay with 100 addresses the best eight are announced', async () => {
  const { host } = await reserveAt(reservation(places(100)))
  await until(() => relayedOf(host).length > 0)
  expect(relayedOf(host)).toHaveLength(8)
  for (const address of relayedOf(host)) expect(address).toContain('/ip4/9.')
})

test('T30: a relay that names an address of another peer is refused', async () => {
  const [other] = places(1)
  const named = multiaddr(other!).encapsulate(`/p2p/${STRANGER}`)
  const { host, warned, asked } = await reserveAt(reservation([...places(1), named.bytes]))
  await until(() => warned.includes('a relay gave no reservation'))
  expect([relayedOf(host), asked()]).toEqual([[], 1])
})

test('T32: a relay does not read a request of some MiB, and resets the stream', async () => {
  const relay = await startVictim({ relay: true })
  const peer = await startAttacker('127.0.0.2')
  cleanups.push(
    () => relay.stop(),
    () => peer.stop(),
  )
  const stream = await (await attack(peer, relay)).newStream(HOP, { signal: within(30_000) })
  const id = field(1, multiaddr(`/p2p/${STRANGER}`).bytes.subarray(3))
  const body = Buffer.concat([id, ...places(200_000).map((bytes) => field(2, bytes))])
  const wire = lpStream(stream)
  // type: CONNECT
  void wire.write(Buffer.concat([Uint8Array.of(0x08, 1), field(2, body)])).catch(() => {})
  await expect(wire.read({ signal: within(30_000) })).rejects.toThrow(/reset/i)
})
