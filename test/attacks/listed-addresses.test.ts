/** T30: a listing names addresses of the buyer's own network, or of a victim. */
import { createServer, type Server } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { ECHO, echo, startVictim } from '../support/attack.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { startTestHost, type TestHostOptions, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(options: TestHostOptions): Promise<Host> {
  const host = await startTestHost(options)
  cleanups.push(() => host.stop())
  return host
}

/** Services of the local network, which count who knocks. */
async function victims(count: number) {
  let knocks = 0
  const servers: Server[] = []
  for (let n = 0; n < count; n++) {
    const server = createServer((socket) => {
      knocks++
      socket.on('error', () => {})
      socket.destroy()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => server.close())
    servers.push(server)
  }
  const ports = servers.map((server) => (server.address() as { port: number }).port)
  return { ports, knocks: () => knocks }
}

const within = (ms: number) => AbortSignal.timeout(ms)
const PING = '/ipfs/ping/1.0.0'

test('D52: private addresses and names of a listing are not dialed, neither to ask nor to call', async () => {
  const { ports, knocks } = await victims(8)
  const buyer = await start({ listenHosts: ['0.0.0.0'] })
  const { peerId } = await createIdentity()
  const addrs = ports.flatMap((port) => [
    `/ip4/127.0.0.1/tcp/${port}/p2p/${peerId}`,
    `/dns4/localhost/tcp/${port}/p2p/${peerId}`,
  ])
  await expect(buyer.probe({ peerId, addrs }, within(5000))).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' })
  await expect(buyer.openStream({ peerId, addrs }, PING, within(5000))).rejects.toMatchObject({
    code: 'PEER_UNREACHABLE',
  })
  expect(knocks()).toBe(0)
})

test('D52: a bootstrap peer with a public name opens no private address of a listing; one with a local name does', async () => {
  const { ports, knocks } = await victims(1)
  const { peerId } = await createIdentity()
  const addrs = [`/ip4/127.0.0.1/tcp/${ports[0]}/p2p/${peerId}`]
  const { peerId: named } = await createIdentity()
  for (const name of ['dns4/boot.example/tcp/4001', 'dnsaddr/boot.example']) {
    const buyer = await start({ listenHosts: ['0.0.0.0'], bootstrap: [`/${name}/p2p/${named}`] })
    await expect(buyer.openStream({ peerId, addrs }, PING, within(5000))).rejects.toMatchObject({
      code: 'PEER_UNREACHABLE',
    })
  }
  expect(knocks()).toBe(0)
  const local = await start({ listenHosts: ['0.0.0.0'], bootstrap: [`/dns4/seed/tcp/4001/p2p/${named}`] })
  await expect(local.openStream({ peerId, addrs }, PING, within(5000))).rejects.toMatchObject({
    code: 'PEER_UNREACHABLE',
  })
  expect(knocks()).toBeGreaterThan(0)
})

test('D52: a seller that this node has met there is reached at its private address', async () => {
  const seller = await start({ listenHosts: ['0.0.0.0'] })
  const local = whereIs(seller, 'tcp')
  const addrs = local.addrs.filter((address) => address.includes('/ip4/127.0.0.1/'))
  const stranger = await start({ listenHosts: ['0.0.0.0'] })
  await expect(stranger.openStream({ ...local, addrs }, PING, within(5000))).rejects.toMatchObject({
    code: 'PEER_UNREACHABLE',
  })
  // The operator names it: it is met, and known from then on.
  const buyer = await start({ listenHosts: ['0.0.0.0'], bootstrap: addrs, dialPrivate: false })
  await until(() => buyer.peers().some(({ peerId }) => peerId === seller.peerId))
  const stream = await buyer.openStream({ ...local, addrs }, PING, within(30_000))
  stream.abort(new Error('only to connect'))
})

test('T30: a question tries two addresses, and many sellers that name one victim reach it only a few times', async () => {
  const { ports, knocks } = await victims(1)
  const buyer = await start({ listenHosts: ['0.0.0.0'], dialPrivate: true })
  for (let seller = 0; seller < 60; seller++) {
    const { peerId } = await createIdentity()
    const addrs = Array.from({ length: 16 }, () => `/ip4/127.0.0.1/tcp/${ports[0]}/p2p/${peerId}`)
    await expect(buyer.probe({ peerId, addrs }, within(5000))).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' })
  }
  expect(knocks()).toBeGreaterThan(0)
  expect(knocks()).toBeLessThan(20)
})

test('T30: such questions leave the calls to an honest seller as quick as they were', { retry: 2 }, async () => {
  const [{ ports }, honest] = [await victims(1), await startVictim()]
  cleanups.push(() => honest.stop())
  const buyer = await start({ listenHosts: ['127.0.0.1'], dialPrivate: true })
  const calls = await buyer.openStream(whereIs(honest, 'tcp'), ECHO, within(60_000))
  await expectBearable(
    () => echo(calls),
    async () => {
      for (let seller = 0; seller < 60; seller++) {
        const { peerId } = await createIdentity()
        const addrs = Array.from({ length: 16 }, () => `/ip4/127.0.0.1/tcp/${ports[0]}/p2p/${peerId}`)
        await expect(buyer.probe({ peerId, addrs }, within(5000))).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' })
      }
    },
  )
})
