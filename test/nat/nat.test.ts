/** A market across NATs, in network namespaces: found, bought from, relay lost and back. Needs root and nft; else it says so. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { PeerStatus } from '../../src/schema/api.ts'
import { until } from '../support/until.ts'
import { Lab, labMissing, type Place } from './lab.ts'
import { LabNode, type LabNodeOptions, type SeenListing } from './lab-node.ts'

const missing = await labMissing()
if (missing !== undefined) process.stdout.write(`test/nat is skipped: ${missing}\n`)

const RPC_PORT = 8545
const FACILITATOR_PORT = 8546
const lab = new Lab()
const places: Record<string, Place> = {}
const nodes: Record<string, LabNode> = {}
const cleanups: (() => unknown)[] = []
let devnet: Devnet
let home: string

/** Makes a port of this machine a unix socket, which namespaces share. */
async function throughSocket(url: string, path: string): Promise<Server> {
  const { hostname, port } = new URL(url)
  const server = createServer((near) => {
    const far = connect(Number(port), hostname)
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
    near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return server
}

async function startProxy(): Promise<void> {
  const pairs = []
  for (const [url, port] of [
    [devnet.rpcUrl, RPC_PORT],
    [devnet.facilitatorUrl, FACILITATOR_PORT],
  ] as const) {
    const path = join(home, `${port}.sock`)
    const server = await throughSocket(url, path)
    cleanups.push(() => server.close())
    pairs.push(String(port), path)
  }
  const main = fileURLToPath(new URL('./proxy.ts', import.meta.url))
  const args = ['netns', 'exec', lab.centre.name, process.execPath, '--no-warnings', main, lab.centre.ip, ...pairs]
  const child = spawn('ip', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  cleanups.push(() => child.kill('SIGKILL'))
  await once(child.stdout!, 'data')
}

async function start(name: string, options: Partial<LabNodeOptions> = {}): Promise<LabNode> {
  const key = options.key ?? generatePrivateKey()
  const centre = `http://${lab.centre.ip}`
  const node = await LabNode.start(places[name]!, {
    dataDir: join(home, name),
    rpcUrl: `${centre}:${RPC_PORT}`,
    facilitatorUrl: `${centre}:${FACILITATOR_PORT}`,
    ...options,
    key,
  })
  nodes[name] = node
  return node
}

const relayAddress = () => `/ip4/${places.relay!.ip}/tcp/4001/p2p/${nodes.relay!.peerId}`
const startRelay = () => start('relay', { relay: true, announce: [`/ip4/${places.relay!.ip}/tcp/4001`] })

async function found(node: LabNode, seller: LabNode, fits: (listing: SeenListing) => boolean = () => true) {
  return await until(
    async () => (await node.ask('listings')).find((one) => one.seller_id === seller.peerId && fits(one)),
    { timeoutMs: 40_000 },
  )
}

const isRelayed = ({ addrs }: SeenListing) => addrs.some((address) => address.includes('/p2p-circuit/'))

async function buy(buyer: LabNode, seller: LabNode) {
  const listing = await found(buyer, seller)
  const began = performance.now()
  const result = await buyer.ask('execute', { agentId: listing.id, input: 'hello' })
  return { ...result, ms: performance.now() - began }
}

beforeAll(async () => {
  if (missing !== undefined) return
  home = await mkdtemp(join(tmpdir(), 'stoa-nat-'))
  devnet = await startDevnet()
  await lab.start()
  await startProxy()
  places.relay = await lab.public('relay')
  places.one = await lab.behindNat('one')
  places.two = await lab.behindNat('two')
  places.buyer = await lab.behindNat('buyer')
  await startRelay()
  const bootstrap = [relayAddress()]
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  await Promise.all([
    start('one', { bootstrap, agent: { name: 'one', price: '1000' } }),
    start('two', { bootstrap, agent: { name: 'two', price: '1000' } }),
    start('buyer', { bootstrap, key }),
  ])
}, 60_000)

afterAll(async () => {
  const logs = process.env.STOA_NAT_LOGS
  if (logs !== undefined) {
    for (const [name, node] of Object.entries(nodes)) await writeFile(join(logs, `${name}.log`), node.log())
  }
  await Promise.allSettled(Object.values(nodes).map((node) => node.kill()))
  for (const cleanup of cleanups) cleanup()
  await lab.stop()
  await devnet?.stop()
  if (home !== undefined) await rm(home, { recursive: true, force: true })
})

describe.skipIf(missing).concurrent('across NATs', () => {
  test('sellers are found, bought from over the relay, and then over a hole that is punched', async () => {
    const { buyer, one, two } = nodes as Record<string, LabNode>
    for (const [name, seller] of Object.entries({ one: one!, two: two! })) {
      await found(buyer!, seller, isRelayed)
      const { output, payment } = await buy(buyer!, seller)
      expect(output).toBe('hello')
      expect(payment).toMatchObject({ amount: '0.001' })
      const relays = [nodes.relay!.peerId]
      expect((await seller.ask('status')).reachability).toMatchObject({ state: 'relayed', relays })

      const direct = `/ip4/${places[name]!.publicIp}/tcp/`
      const isDirect = ({ peer_id, addresses }: PeerStatus) =>
        peer_id === seller.peerId && addresses.some((address) => address.startsWith(direct))
      await until(async () => (await buyer!.ask('peers')).some(isDirect), { timeoutMs: 20_000 })
      expect(await buy(buyer!, seller)).toMatchObject({ output: 'hello' })
    }
  })

  test('a node with NODE_ANNOUNCE_ADDR is dialled there, and has no relay', async () => {
    places.told = await lab.behindNat('told', { forwards: [4001] })
    const announce = [`/ip4/${places.told.publicIp}/tcp/4001`]
    const told = await start('told', { announce, bootstrap: [relayAddress()], agent: { name: 'told', price: '0' } })
    const listing = await found(nodes.buyer!, told)
    expect(listing.addrs[0]).toBe(`${announce[0]}/p2p/${told.peerId}`)
    expect(await buy(nodes.buyer!, told)).toMatchObject({ output: 'hello' })
    const peer = (await nodes.buyer!.ask('peers')).find(({ peer_id }) => peer_id === told.peerId)
    expect(peer?.addresses).toContainEqual(expect.stringContaining(announce[0]!))
    expect((await told.ask('status')).reachability).toMatchObject({ state: 'public', relays: [] })
  })

  // One whose router passes the port on without its knowing, one on the public segment itself.
  test.each(['lucky', 'open'])('%s: an address nobody announced is proved by a peer, and listed', async (name) => {
    const place = name === 'open' ? await lab.public(name) : await lab.behindNat(name, { forwards: [4001] })
    places[name] = place
    const node = await start(name, { bootstrap: [relayAddress()], agent: { name, price: '0' } })
    const at = (ip: string) => `/ip4/${ip}/tcp/4001/p2p/${node.peerId}`
    await found(nodes.buyer!, node, ({ addrs }) => addrs[0] === at(place.publicIp))
    expect((await node.ask('status')).reachability).toMatchObject({ state: 'public', relays: [] })
    expect(await buy(nodes.buyer!, node)).toMatchObject({ output: 'hello' })

    if (name !== 'open') return
    const moved = await lab.renumber(place)
    await found(nodes.buyer!, node, ({ addrs }) => addrs[0] === at(moved.publicIp))
    expect(await buy(nodes.buyer!, node)).toMatchObject({ output: 'hello' })
  })
})

test.skipIf(missing)('a relay that is killed is missed, and used again when it returns', async () => {
  const { one, two, buyer } = nodes as Record<string, LabNode>
  await nodes.relay!.kill()
  await until(async () => (await one!.ask('status')).reachability.state !== 'relayed')
  // What was punched needs no relay.
  expect(await buy(buyer!, one!)).toMatchObject({ output: 'hello' })
  await startRelay()
  for (const seller of [one!, two!]) {
    await until(async () => (await seller.ask('status')).reachability.state === 'relayed', { timeoutMs: 40_000 })
    await found(buyer!, seller, isRelayed)
    expect(await buy(buyer!, seller)).toMatchObject({ output: 'hello' })
  }
})
