/** The node asks the addresses that it gives to clients: over a proxy with TLS, and one that does it wrong. */
import { request } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DoorTests } from '../../src/node/door-tests.ts'
import { doorPlaces } from '../../src/node/doors.ts'
import type { Doors, DoorTests as Report } from '../../src/schema/doors.ts'
import { HandClock } from '../support/hand-clock.ts'
import { testCertificate } from '../support/test-certificate.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let proxy: Server
let url: string
let seller: TestNode
/** What the proxy does wrong now. */
let fault: 'moves' | 'no header' | 'other price' | 'busy' | undefined
const runs: string[] = []

beforeAll(async () => {
  proxy = createServer(testCertificate, (incoming, outgoing) => {
    if (fault === 'moves') return void outgoing.writeHead(301, { location: 'https://elsewhere.example' }).end()
    if (fault === 'busy') return void outgoing.writeHead(503).end()
    const { pathname, port } = new URL(behind)
    const { method } = incoming
    const { connection: _own, ...headers } = incoming.headers
    const passed = request(
      { port, method, headers, agent: false, path: pathname.slice(1) + incoming.url! },
      (answer) => {
        const all = { ...answer.headers }
        if (fault === 'no header') delete all['payment-required']
        if (fault === 'other price') all['payment-required'] = dearer(String(all['payment-required']))
        outgoing.writeHead(answer.statusCode!, all)
        answer.pipe(outgoing)
      },
    )
    incoming.pipe(passed)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  url = `https://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  const port = 20_000 + (process.pid % 20_000)
  behind = `http://127.0.0.1:${port}`
  seller = await startTestNode({ public: { port, url } })
  const run = (task: string) => {
    runs.push(task)
    return task
  }
  const register = (name: string, price: bigint) =>
    seller.node.registerAgent({ name, description: 'd', price }, { persist: false, run })
  await register('paid', 20_000n)
  await register('free', 0n)
})
afterAll(async () => {
  await seller?.stop()
  proxy?.close()
})
let behind: string

const dearer = (header: string) =>
  Buffer.from(Buffer.from(header, 'base64').toString().replaceAll('"20000"', '"90000"')).toString('base64')

async function doors(): Promise<Doors> {
  return (await (await fetch(`${seller.url}/doors`)).json()) as Doors
}

/** Tests the addresses of the node. Nobody but the test trusts the proxy’s certificate. */
async function testedAt(now: number, { isTrusted = true } = {}): Promise<Report> {
  const known = await doors()
  const sold = new Map(seller.node.listings().map((listing) => [listing.id, listing]))
  const registry = {
    list: () => [...sold.values()].map(({ id, name }) => ({ id, definition: { name, price: 1n }, lacks: undefined })),
  }
  const tests = new DoorTests({
    clock: new HandClock(now),
    ca: isTrusted ? testCertificate.cert : undefined,
    places: () =>
      doorPlaces({
        host: { addresses: () => [] },
        registry,
        publicUrl: () => known.doors[2]!.url!.slice(0, -5),
      } as never),
    askPeers: async () => ({ state: 'skip', text: 'not seen from outside' }),
    listedTerms(id) {
      const { price_atomic, network, asset, pay_to: payTo } = sold.get(id)!
      return { amount: BigInt(price_atomic), network, asset, payTo }
    },
  })
  return tests.run()
}

const textsOf = ({ tests }: Report, state: string) =>
  tests.filter((one) => one.state === state).map(({ door, text }) => `${door}: ${text}`)
const NOW = Date.UTC(2026, 10, 24)

test('every address is asked as a client asks it, and nothing runs', async () => {
  const report = await testedAt(NOW)
  const found = textsOf(report, 'ok').map((text) => text.replace(/\d+ more days/, 'N more days'))
  const valid = 'its certificate is valid for N more days'
  expect(found.toSorted()).toEqual(
    [
      `a2a: its card names this address; ${valid}`,
      `a2a: its card names this address; ${valid}`,
      `http: answers 402 with the price of the listing; ${valid}`,
      `http: answers, and is free; ${valid}`,
      `mcp: lists its tools: 2 agents; ${valid}`,
    ].toSorted(),
  )
  expect(report.tests).toHaveLength(6)
  expect(runs).toEqual([])
})

test('a certificate that ends soon, or that nobody knows, is told', async () => {
  const soon = await testedAt(Date.UTC(2126, 9, 28))
  expect(textsOf(soon, 'warn')).toHaveLength(5)
  expect(soon.tests[0]!.fix).toMatch(/^renew the certificate/)
  const unknown = await testedAt(NOW, { isTrusted: false })
  expect(textsOf(unknown, 'fail')).toHaveLength(5)
  expect(unknown.tests[0]!.text).toMatch(/TLS is refused: self-signed/)
})

test.each([
  ['moves', 'answers 301 and not 402: clients do not follow redirects', 'fail'],
  ['no header', 'the answer has no header PAYMENT-REQUIRED', 'fail'],
  ['other price', 'the answer asks for 0.09 USDC, its listing says 0.02 USDC', 'fail'],
  ['busy', 'is busy: no price was asked', 'warn'],
] as const)('a proxy that %s is found', async (what, text, state) => {
  fault = what
  const { tests } = await testedAt(NOW)
  fault = undefined
  const paid = tests.find(
    ({ door, agent_id }) =>
      door === 'http' && seller.node.listings().find(({ id }) => id === agent_id)?.name === 'paid',
  )
  expect(paid).toMatchObject({ text, state, fix: expect.any(String) })
})

test('the API tests with the certificates of the system, says so in GET /doors, and joins tests at once', async () => {
  const test = () =>
    fetch(`${seller.url}/doors/test`, { method: 'POST' }).then((answer) => answer.json()) as Promise<Report>
  const [first, second] = await Promise.all([test(), test()])
  expect(first).toEqual(second)
  expect(first.tests.filter(({ from }) => from === 'here').every(({ state }) => state === 'fail')).toBe(true)
  expect((await doors()).tests).toEqual(first)
})

test('a node without a public listener says why and how to open it', async () => {
  const plain = await startTestNode()
  const { doors, openai, tests } = (await (await fetch(`${plain.url}/doors`)).json()) as Doors
  for (const door of doors.filter(({ door }) => door !== 'libp2p')) {
    expect(door).toMatchObject({
      open: false,
      why: 'public.port is not set',
      fix: expect.stringMatching('public.port'),
    })
  }
  expect(openai).toMatchObject({ open: false, why: 'openai_door is not set', spent: '0', daily_budget: '1' })
  expect(tests).toBeUndefined()
  expect(await (await fetch(`${plain.url}/doors/test`, { method: 'POST' })).json()).toMatchObject({ tests: [] })
  await plain.stop()
})
