/** A trade host and a market host: what each does, and two processes with one identity. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Stream } from '@libp2p/interface'
import { afterEach, expect, test } from 'vitest'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity, loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import { startTestHost, type TestHostOptions, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const NAME = '/test/name/1.0.0'
const DHT = '/node/kad/1.0.0'
const TRADE_HOST = new URL('../support/trade-host.ts', import.meta.url).pathname
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(options?: TestHostOptions): Promise<Host> {
  const host = await startTestHost(options)
  cleanups.push(() => host.stop())
  return host
}

/** The two hosts of one process. */
async function startBoth(options: TestHostOptions = {}): Promise<{ trade: Host; market: Host }> {
  const [identity, own] = await Promise.all([createIdentity(), createIdentity()])
  const market = await start({ role: 'market', identity: own, otherPeerId: identity.peerId, ...options })
  const trade = await start({ role: 'trade', identity, otherPeerId: own.peerId, directory: market, ...options })
  return { trade, market }
}

const within = (ms: number) => AbortSignal.timeout(ms)

async function ask(stream: Stream): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  stream.addEventListener('message', (event) => resolve(new TextDecoder().decode(event.data.subarray())))
  stream.addEventListener('close', (event) => reject(event.error ?? new Error('closed')))
  stream.send(new TextEncoder().encode('who?'))
  return await promise
}

test('the market host speaks what meets other nodes, the trade host only what serves calls', async () => {
  const { trade, market } = await startBoth()
  await trade.handle(NAME, (stream) => void stream.close())
  const other = await start()
  await other.openStream(whereIs(trade), NAME, within(30_000))
  await other.probe(whereIs(market), within(30_000)).catch(() => {})
  const marketOnly = ['/meshsub/1.1.0', DHT, '/libp2p/autonat/2/dial-request']
  await until(() => other.speaks(trade.peerId, NAME))
  for (const protocol of marketOnly) expect(other.speaks(trade.peerId, protocol)).toBe(false)
  const met = await start({ bootstrap: market.addresses().slice(0, 1) })
  for (const protocol of marketOnly) await until(() => met.speaks(market.peerId, protocol))
  expect(met.speaks(market.peerId, NAME)).toBe(false)
})

test('who names the trade host as its bootstrap peer is met by the market host', async () => {
  const { trade, market } = await startBoth()
  const other = await start({ bootstrap: [trade.addresses()[0]!] })
  await until(() => other.peers().some(({ peerId }) => peerId === market.peerId))
  expect(
    other
      .peers()
      .map(({ peerId }) => peerId)
      .toSorted(),
  ).toEqual([trade.peerId, market.peerId].toSorted())
})

test('a relay relays at its market host only', async () => {
  const { trade, market } = await startBoth({ relay: true })
  const other = await start({ bootstrap: [trade, market].map((host) => host.addresses()[0]!) })
  const hop = '/libp2p/circuit/relay/0.2.0/hop'
  await until(() => other.speaks(market.peerId, hop))
  await until(() => other.speaks(trade.peerId, hop) === false)
})

test('the trade host finds a seller where the market host knows it', async () => {
  const middle = await start()
  const { trade } = await startBoth({ bootstrap: [middle.addresses()[0]!], announce: ['/ip4/9.9.9.9/tcp/4001'] })
  const seller = await start({ bootstrap: [middle.addresses()[0]!] })
  await seller.handle(NAME, (stream) => {
    stream.addEventListener('message', () => stream.send(new TextEncoder().encode('the seller')))
  })
  const gone = `/ip4/127.0.0.1/tcp/1/p2p/${seller.peerId}`
  const stream = await until(() =>
    trade.openStream({ peerId: seller.peerId, addrs: [gone] }, NAME, within(10_000)).catch(() => undefined),
  )
  expect(await ask(stream)).toBe('the seller')
  // With a public address, it connects with nobody but for calls.
  expect(trade.peers().map(({ peerId }) => peerId)).toEqual([seller.peerId])
})

test('no host of a node dials its own peer id or that of the other host', async () => {
  const { trade, market } = await startBoth()
  const elsewhere = await start()
  const [address] = elsewhere.addresses()
  for (const host of [trade, market]) {
    for (const { peerId } of [trade, market]) {
      const addrs = [
        address!.replace(elsewhere.peerId, peerId),
        ...(peerId === trade.peerId ? trade : market).addresses(),
      ]
      const opened = host.openStream({ peerId, addrs }, NAME, within(30_000))
      await expect(opened).rejects.toMatchObject({ code: 'PEER_UNREACHABLE', message: expect.stringMatching(/itself/) })
    }
  }
  expect(elsewhere.peers()).toEqual([])
})

test('a list of bootstrap peers may name the processes of the seller', async () => {
  const identity = await createIdentity()
  const other = await start({ role: 'trade', identity })
  const own = await createIdentity()
  const bootstrap = [other.addresses()[0]!]
  const middle = await start()
  const market = await start({
    ...{ role: 'market', identity: own, otherPeerId: identity.peerId },
    bootstrap: [...bootstrap, middle.addresses()[0]!],
  })
  await until(() => market.peers().length > 0)
  expect(market.peers().map(({ peerId }) => peerId)).toEqual([middle.peerId])
})

type Process = { child: ChildProcess; addresses: string[] }

async function startProcess(keyFile: string, name: string): Promise<Process> {
  const args = ['--no-warnings', TRADE_HOST, keyFile, name]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  cleanups.push(() => kill(child))
  const [line] = await once(createInterface({ input: child.stdout! }), 'line', { signal: within(60_000) })
  return { child, addresses: JSON.parse(line as string) }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const end = once(child, 'close')
  child.kill('SIGKILL')
  await end
}

test('a buyer goes on to the other process of a seller when one is killed, in both directions', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-hosts-'))
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  const keyFile = join(dir, 'identity.key')
  const { peerId } = await loadOrCreateIdentity(keyFile)
  const [a, b] = await Promise.all([startProcess(keyFile, 'a'), startProcess(keyFile, 'b')])
  const listed = { peerId, addrs: [...a.addresses, ...b.addresses] }
  const buyer = await start()

  const kept = await buyer.openStream(listed, NAME, within(10_000))
  // It begins with either.
  const name = await ask(kept)
  const [first, second] = name === 'a' ? [a, b] : [b, a]
  // The second has told its own addresses since, and nothing of those of the first.
  const other = await buyer.openStream({ peerId, addrs: second.addresses }, NAME, within(10_000))
  expect(await ask(other)).toBe(name)
  await kill(first.child)
  const next = await buyer.openStream(listed, NAME, within(10_000))
  expect(await ask(next)).toBe(name === 'a' ? 'b' : 'a')
  await expect(ask(kept)).rejects.toThrow()

  const again = await startProcess(keyFile, 'again')
  await kill(second.child)
  const addrs = [...second.addresses, ...again.addresses]
  const last = await buyer.openStream({ peerId, addrs }, NAME, within(10_000))
  expect(await ask(last)).toBe('again')
})

test('T17 a buyer goes on to the other process of a seller when the one it is connected to ends its streams at once', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-hosts-'))
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  const keyFile = join(dir, 'identity.key')
  const { peerId } = await loadOrCreateIdentity(keyFile)
  const [full, other] = await Promise.all([startProcess(keyFile, 'full'), startProcess(keyFile, 'other')])
  const listed = { peerId, addrs: [...full.addresses, ...other.addresses] }
  const buyer = await start()
  await buyer.openStream({ peerId, addrs: full.addresses }, NAME, within(10_000)).catch(() => {})
  expect(buyer.peers().map((peer) => peer.peerId)).toEqual([peerId])
  const answer = async () => ask(await buyer.openStream(listed, NAME, within(10_000)))
  // The end of a stream may also come after both have agreed on the protocol: who wants to buy then asks once more.
  expect(await until(() => answer().catch(() => undefined))).toBe('other')
  expect(await answer()).toBe('other')
})
