/** T36: what strangers send to the public listener, beside an honest client of others that goes on buying. */
import { randomInt, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { createAgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener } from '../../src/http/public/public-listener.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { SignedAuthorization } from '../../src/schema/payment.ts'
import { a2aClient, send as a2aMessage, asTask, stateOf } from '../support/a2a-client.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { fetchBuyer } from '../support/http-buyers.ts'
import { send, sendTask, signFor, termsAt } from '../support/public-seller.ts'
import { RawPeer, said } from '../support/raw-peer.ts'
import { startTestHost } from '../support/test-host.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { unpaidFlood } from '../support/unpaid-flood.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const TOKEN = 'the-operator-has-this-one'
let devnet: Devnet
let seller: TestNode
let home: string
const ids: Record<string, string> = {}
const runs: string[] = []

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-strangers-'))
  devnet = await startDevnet()
  seller = await startTestNode({
    devnet,
    walletKey: devnet.wallets.seller.privateKey,
    dataDir: join(home, 'seller'),
    apiToken: TOKEN,
    public: { port: 0 },
  })
  for (const name of ['one', 'two']) {
    const run = (task: string) => {
      runs.push(task)
      return task
    }
    const definition = { name, description: 'Says it again', price: PRICE }
    ids[name] = (await seller.node.registerAgent(definition, { persist: false, run })).id
  }
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const at = (name: string) => `${seller.publicUrl}/x402/${ids[name]}`
const earned = () => devnet.chain.balanceOf(devnet.wallets.seller.address)
const runsOf = (task: string) => runs.filter((run) => run === task).length

/** A payer with an account of its own. */
async function payer() {
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000_000n)
  return key
}

test('no route of the management API answers on the public listener, with or without the token of the operator', async () => {
  const { paths } = (await (await fetch(`${seller.url}/openapi.json`)).json()) as { paths: Record<string, object> }
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })),
  )
  expect(operations.length).toBeGreaterThan(80)
  const more = ['/dashboard', '/dashboard/', '/docs', '/openapi.json', '/metrics', '/a2a/market', '/v1/models']
  const asked = [...operations, ...more.map((path) => ({ path, method: 'GET' }))]
  const open: string[] = []
  for (const { path, method } of asked) {
    for (const prefix of ['', '/api']) {
      const url = seller.publicUrl + prefix + path.replaceAll(/\{\w+\}/g, ids.one!)
      const headers = { authorization: `Bearer ${TOKEN}`, cookie: `token=${TOKEN}`, 'content-type': 'application/json' }
      const { status } = await send(url, { method, headers, ...(method !== 'GET' && { body: '{}' }) })
      if (status !== 404) open.push(`${method} ${prefix}${path}: ${status}`)
    }
  }
  // It has a document of its own there.
  expect(open).toEqual(['GET /openapi.json: 200', 'GET /openapi.json: 200'])
  const own = JSON.parse((await send(`${seller.publicUrl}/openapi.json`, { method: 'GET' })).text) as { paths: object }
  expect(Object.keys(own.paths).filter((path) => !/^\/x402(\/|$)/.test(path))).toEqual([])
})

test('T5 one payment at three doors at once, over HTTP, A2A and libp2p, buys one run and one charge', async () => {
  const before = await earned()
  const host = await startTestHost({ identity: await createIdentity() })
  try {
    const peer = await RawPeer.open(host, { peerId: seller.node.peerId, addrs: seller.node.addresses() })
    for (let round = 1; round <= 4; round++) {
      const task = `at all doors ${round} ${randomUUID()}`
      const key = await payer()
      const headers = await signFor(await termsAt(at('one')), key)
      const sent = JSON.parse(Buffer.from(headers['payment-signature'], 'base64').toString())
      const { payload } = sent as { payload: { authorization: { from: string } } }
      const client = await a2aClient(`${seller.url}/a2a/${ids.one}`)
      // Without the resource, which would refuse it before anybody claims it.
      const { resource: _, ...anywhere } = sent
      const metadata = { 'x402.payment.status': 'payment-submitted', 'x402.payment.payload': anywhere }
      const overA2a = async () => {
        const options = {
          serviceParameters: {
            'A2A-Extensions': 'https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2',
            authorization: `Bearer ${TOKEN}`,
          },
        }
        return stateOf(asTask(await client.sendMessage(a2aMessage(task, { metadata }), options as never)))
      }
      const envelope = {
        ...{ x402_version: 2, scheme: 'exact', network: 'eip155:84532', server_nonce: 'preemptive' },
        ...{ payer: payload.authorization.from, payload: SignedAuthorization.parse(payload) },
      }
      const [http, a2a, p2p] = await Promise.all([
        sendTask(at('one'), task, headers),
        overA2a(),
        peer.request(ids.one!, task, { payment: envelope as never }).then(said),
      ])
      const won = [http.status === 200, a2a === 'COMPLETED', p2p === task].filter(Boolean)
      expect(won, `${http.status} ${http.text}, ${a2a}, ${String(p2p)}`).toHaveLength(1)
      expect(runsOf(task)).toBe(1)
    }
  } finally {
    await host.stop()
  }
  await until(async () => (await earned()) === before + 4n * PRICE, { everyMs: 100 })
})

test('T5 one payment on two agents at once, ten times each, buys one run of one of them', async () => {
  const before = await earned()
  const task = `on two agents ${randomUUID()}`
  const headers = await signFor(await termsAt(at('one')), await payer())
  const asked = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? 'one' : 'two'))
  const answers = await Promise.all(asked.map((name) => sendTask(at(name), task, headers)))
  const answered = new Set(answers.flatMap(({ status }, index) => (status === 200 ? asked[index]! : [])))
  expect([...answered]).toHaveLength(1)
  expect(answers.filter(({ status }) => status !== 200 && status !== 409)).toEqual([])
  expect(runsOf(task)).toBe(1)
  expect(await earned()).toBe(before + PRICE)
})

test('10,000 unpaid requests, from another address, keep no honest client out, and its p99 within three times of that alone', async () => {
  const buy = fetchBuyer(await payer())
  const honest = new Set<number>()
  const call = async () => honest.add((await buy(at('one'), { task: 'honest' })).status)
  const flood = async () => {
    const statuses = await unpaidFlood(at('one'), 10_000)
    // A busy machine asks more slowly than the limit allows.
    const { 402: asked = 0, 429: refused = 0, ...others } = statuses
    expect(others).toEqual({})
    expect(asked + refused).toBe(10_000)
  }
  await expectBearable(call, flood, { calls: 50 })
  expect([...honest]).toEqual([200])
  // Hundreds of calls that settle on a chain, and floods: on a loaded machine this takes minutes.
}, 600_000)

test('an address over its limit is refused late, so that no connection of it can ask at any speed', async () => {
  const asking = new Agent({ keepAlive: true, maxSockets: 100, localAddress: '127.0.0.88' })
  const ask = () =>
    new Promise<{ status: number; ms: number }>((resolve, reject) => {
      const sent = request(at('one'), { method: 'POST', agent: asking })
      let from = 0
      sent.on('socket', () => {
        from = performance.now()
      })
      sent.on('response', (answer) => {
        answer.resume().on('end', () => resolve({ status: answer.statusCode!, ms: performance.now() - from }))
      })
      sent.on('error', reject).end('{"task":"x"}')
    })
  const answers = await Promise.all(Array.from({ length: 1_000 }, ask))
  asking.destroy()
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([402, 429]))
  const refused = answers.filter(({ status }) => status === 429).map(({ ms }) => ms)
  expect(Math.min(...refused)).toBeGreaterThan(150)
})

test('connections that say nothing, from one address, end at their limit and keep no honest client out', async () => {
  const { hostname, port } = new URL(seller.publicUrl)
  let closed = 0
  const sockets = Array.from({ length: 400 }, () => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.9' })
    return socket.on('error', () => {}).on('close', () => closed++)
  })
  await until(() => closed >= 400 - 128)
  expect((await send(at('one'))).status).toBe(402)
  for (const socket of sockets) socket.destroy()
})

test('headers that are too long, or no HTTP, are refused in words, and the connection ends', async () => {
  const { hostname, port } = new URL(seller.publicUrl)
  const answerTo = async (bytes: string) => {
    const socket = connect({ host: hostname, port: Number(port) })
    socket.on('error', () => {}).write(bytes)
    const chunks: Buffer[] = []
    for await (const chunk of socket) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks).toString()
  }
  const long = `POST /x402/${ids.one} HTTP/1.1\r\nHost: x\r\nPAYMENT-SIGNATURE: ${'A'.repeat(20_000)}\r\n\r\n`
  expect(await answerTo(long)).toMatch(/^HTTP\/1\.1 431 [\s\S]*"HEADERS_TOO_LARGE"/)
  expect(await answerTo('GET / FTP/9\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 [\s\S]*"INVALID_REQUEST"/)
  const split = `POST /x402/${ids.one} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
  expect(await answerTo(split)).toMatch(/^HTTP\/1\.1 400 /)
})

test('bodies that are larger than they may be are not read', async () => {
  const headers = { ...(await signFor(await termsAt(at('one')), await payer())), 'content-type': 'text/plain' }
  const declared = await send(at('one'), { headers, body: 'x'.repeat(9_000_000) }).catch(() => undefined)
  expect([413, undefined]).toContain(declared?.status)
  // Without a length: as chunks.
  const status = await new Promise((resolve) => {
    const asking = request(at('one'), { method: 'POST', headers })
    asking.on('response', (answer) => resolve(answer.resume().statusCode))
    asking.on('error', () => resolve('cut off'))
    const chunk = Buffer.alloc(1_000_000, 'x')
    for (let sent = 0; sent < 10; sent++) asking.write(chunk)
    asking.end()
  })
  expect([413, 'cut off']).toContain(status)
  expect((await send(at('one'))).status).toBe(402)
})

test('an address that sends made-up payments is slowed down, and the same account elsewhere is not', async () => {
  const key = await payer()
  const terms = await termsAt(at('one'))
  const forge = (nonce: number) =>
    signFor(terms, key, (sent) => {
      const signature = `0x${nonce.toString(16).padStart(2, '0').repeat(64)}1b`
      return { ...sent, payload: { ...sent.payload, signature } }
    })
  // Some at once: the address earns back what little time gives, and a busy machine takes its time for each.
  const forged = await Promise.all(Array.from({ length: 120 }, (_, index) => forge(index + 1)))
  // One of its own, also when the test is tried again.
  const address = `127.0.77.${randomInt(1, 255)}`
  const statuses: number[] = []
  while (forged.length > 0) {
    const some = forged.splice(0, 12).map((headers) => statusFrom(address, at('one'), headers))
    statuses.push(...(await Promise.all(some)))
  }
  expect(statuses[0]).toBe(402)
  expect(statuses).toContain(429)
  expect((await sendTask(at('one'), 'from home', await signFor(terms, key))).status).toBe(200)
})

/** The status of a paid request that is sent from another address of this machine. */
function statusFrom(localAddress: string, url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const all = { 'content-type': 'application/json', ...headers }
    const asking = request(url, { method: 'POST', localAddress, headers: all })
    asking.on('response', (answer) => resolve(answer.resume().statusCode!)).on('error', reject)
    asking.end('{"task":"x"}')
  })
}

test('a body that comes slowly is cut off, and so is a head; requests that are whole are answered meanwhile', async () => {
  const clock = systemClock
  const agentSale = createAgentSale({
    ...({ sales: { agents: { find: () => freeAgent }, slots: { hasRoom: () => true } } } as unknown as SaleDeps),
    publicUrl: () => '',
    textOf: () => ({ name: 'n', description: 'd', tags: [] }),
  })
  const listener = createPublicListener(
    {
      ...{ host: '127.0.0.1', port: 0, url: undefined, drainMs: 0 },
      timing: { headMs: 200, requestMs: 400, checkEveryMs: 50 },
    },
    {
      ...{ logger: silentLogger, meters: new Meters(), agentSale, index: () => ({}), openApi: () => ({}) },
      doorSales: { idle: async () => {}, abort: () => {} },
      limits: new PublicLimits(publicLimits, { clock }),
      sites: createSiteReader([]),
    },
  )
  await listener.start()
  try {
    const { hostname, port } = new URL(listener.url)
    const ends = async (...parts: string[]) => {
      const socket = connect({ host: hostname, port: Number(port) })
      socket.on('error', () => {})
      for (const part of parts) socket.write(part)
      const chunks: Buffer[] = []
      for await (const chunk of socket) chunks.push(chunk as Buffer)
      return Buffer.concat(chunks).toString()
    }
    const head = `POST /x402/${'a'.repeat(32)} HTTP/1.1\r\nHost: x\r\n`
    const slow = [ends(head), ends(`${head}Content-Type: text/plain\r\nContent-Length: 100\r\n\r\n`, 'a few bytes')]
    expect((await send(`${listener.url}/x402`, { method: 'GET' })).status).toBe(200)
    expect(await Promise.all(slow)).toEqual([
      expect.stringMatching(/^HTTP\/1\.1 408 /),
      expect.stringMatching(/^HTTP\/1\.1 408 /),
    ])
  } finally {
    await listener.stop()
  }
})

type SaleDeps = Parameters<typeof createAgentSale>[0]
const freeAgent = { id: 'a'.repeat(32), amount: 0n, timeoutMs: 1_000, tokenId: '', run: async () => 'never' }
