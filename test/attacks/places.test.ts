/** One address, or a dozen, cannot keep newcomers out (D52): neither by names nor by connections that say nothing. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { multiaddr } from '@multiformats/multiaddr'
import type { Libp2p } from 'libp2p'
import { afterEach, expect, test } from 'vitest'
import { type Logger, silentLogger } from '../../src/lib/logger.ts'
import { attack, ECHO, echo, honestP99, startAttacker, startVictim, within } from '../support/attack.ts'
import { bearable, expectBearable } from '../support/honest-calls.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

/** The victim dials nobody by itself: only who came in is looked at. */
const timing = { rejoinEveryMs: 3_600_000 }
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()))
})

const portOf = (address: string) => Number(/\/(?:tcp|udp)\/(\d+)/.exec(address)?.[1])

async function silent(port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => {})
  cleanups.push(() => socket.destroy())
  await Promise.race([once(socket, 'connect'), once(socket, 'close')])
  return socket
}

test('D52 T29: one address with 40 peer ids gets the connections of one address, and a newcomer gets in', async () => {
  const warnings: string[] = []
  const noted: Logger = { ...silentLogger, warn: (_, message) => void warnings.push(message), child: () => noted }
  const inbound = { most: 60, reserved: 8, perAddress: 20, settlingMs: 0 }
  const victim = await startVictim({ inbound, timing, logger: noted })
  cleanups.push(() => victim.stop())
  const quiet = await startAttacker('127.0.0.7')
  cleanups.push(() => quiet.stop())
  await attack(quiet, victim)
  const attackers = await Promise.all(Array.from({ length: 40 }, () => startAttacker('127.0.0.2')))
  cleanups.push(...attackers.map((one: Libp2p) => () => one.stop()))
  for (const one of attackers) {
    for (let count = 0; count < 2; count++) {
      await one
        .dial(multiaddr(whereIs(victim, 'tcp').addrs[0]!), { force: true, signal: within(30_000) })
        .catch(() => {})
    }
  }
  const held = () =>
    victim
      .peers()
      .flatMap(({ addresses }) => addresses)
      .filter((address) => address.includes('/127.0.0.2/'))
  await until(() => held().length <= 20)
  expect(warnings.some((line) => line.includes('127.0.0.2') && line.includes('NODE_CONNECTIONS_PER_ADDRESS'))).toBe(
    true,
  )

  const newcomers = await Promise.all(['127.0.0.3', '127.0.0.4'].map((ip) => startAttacker(ip)))
  cleanups.push(...newcomers.map((one) => () => one.stop()))
  for (const one of newcomers) {
    const stream = await (await attack(one, victim)).newStream(ECHO, { signal: within(30_000) })
    expect(stream.status).toBe('open')
  }
  // Whoever was there before, at an address of its own, was not put out for them.
  expect(quiet.getConnections()).toHaveLength(1)
})

test('D52: when all connections are taken, idle ones of the fullest address make room, and used ones stay', async () => {
  const inbound = { most: 12, reserved: 2, perAddress: 100, settlingMs: 0 }
  const victim = await startVictim({ inbound, timing })
  cleanups.push(() => victim.stop())
  const crowd = await Promise.all(Array.from({ length: 14 }, () => startAttacker('127.0.0.2')))
  cleanups.push(...crowd.map((one) => () => one.stop()))
  const busy = await attack(crowd[0]!, victim)
  const call = await busy.newStream(ECHO, { signal: within(30_000) })
  for (const one of crowd.slice(1)) await attack(one, victim).catch(() => {})
  await until(() => victim.peers().every(({ agentVersion }) => agentVersion !== undefined))
  for (const ip of ['127.0.0.3', '127.0.0.4', '127.0.0.5', '127.0.0.6']) {
    const newcomer = await startAttacker(ip)
    cleanups.push(() => newcomer.stop())
    await (await attack(newcomer, victim)).newStream(ECHO, { signal: within(30_000) })
  }
  expect(call.status).toBe('open')
  await until(() => victim.peers().length <= 12)
})

test('D52 T7: 256 silent connections from a dozen addresses shut out nobody, over TCP or QUIC', {
  retry: 2,
}, async () => {
  const victim = await startVictim()
  const honest = await startTestHost()
  cleanups.push(
    () => victim.stop(),
    () => honest.stop(),
  )
  const calls = await honest.openStream(whereIs(victim, 'tcp'), ECHO, within(60_000))
  await honestP99(calls, 100)
  const quiet = await honestP99(calls, 200)
  const port = portOf(whereIs(victim, 'tcp').addrs[0]!)
  const sockets: Socket[] = []
  for (let count = 0; count < 300; count++) sockets.push(await silent(port, `127.0.1.${1 + (count % 12)}`))
  for (const transport of ['tcp', 'quic-v1'] as const) {
    const newcomer = await startTestHost()
    cleanups.push(() => newcomer.stop())
    const stream = await newcomer.openStream(whereIs(victim, transport), ECHO, within(20_000))
    expect(stream.status).toBe('open')
  }
  expect(await honestP99(calls, 200)).toBeLessThan(bearable(quiet))
  await until(() => sockets.every(({ destroyed, readyState }) => destroyed || readyState !== 'open'))
})

test('D52: peer ids that come again and again from one address leave an honest peer’s calls as quick as before', {
  retry: 2,
}, async () => {
  const inbound = { most: 60, reserved: 8, perAddress: 20, settlingMs: 0 }
  const [victim, honest] = [await startVictim({ inbound, timing }), await startTestHost()]
  const attackers = await Promise.all(Array.from({ length: 12 }, () => startAttacker('127.0.0.2')))
  cleanups.push(...[victim, honest, ...attackers].map((one) => () => one.stop()))
  const calls = await honest.openStream(whereIs(victim, 'tcp'), ECHO, within(60_000))
  const place = multiaddr(whereIs(victim, 'tcp').addrs[0]!)
  await expectBearable(
    () => echo(calls),
    async () => {
      for (let count = 0; count < 30; count++) {
        const one = attackers[count % attackers.length]!
        await one.dial(place, { force: true, signal: within(30_000) }).catch(() => {})
      }
    },
  )
})
