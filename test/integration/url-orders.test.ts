/** T41 D54: purchases by URL that nobody waits for: placed orders, steps of workflows, tools of models, and their receipts. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { CreateWorkflowBody } from '../../src/schema/workflow.ts'
import { call } from '../support/api-calls.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'
import { startExpressSeller, type WebSeller } from '../support/web-seller.ts'

const NEVER = new AbortController().signal
let devnet: Devnet
let home: string
let seller: TestNode
let express: WebSeller
let weather: WebSeller
let buyer: TestNode
let echoId: string
const asked: string[] = []

const startBuyer = async () => {
  const privateOrigins = [express.origin, weather.origin, new URL(seller.publicUrl).origin]
  const walletKey = devnet.wallets.buyer.privateKey
  buyer = await startTestNode({ devnet, walletKey, dataDir: join(home, 'buyer'), buyer: { privateOrigins } })
}

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-url-orders-'))
  devnet = await startDevnet()
  seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey, public: { port: 0 } })
  const definition = { name: 'echo', description: 'Says it again', price: 30_000n }
  echoId = (await seller.node.registerAgent(definition, { persist: false, run: async (task) => `${task}!` })).id
  const trading = { facilitatorUrl: devnet.facilitatorUrl, payTo: devnet.wallets.seller.address }
  express = await startExpressSeller({
    ...trading,
    answer({ body }, response) {
      asked.push(body)
      response.json({ said: JSON.parse(body).task })
    },
  })
  weather = await startExpressSeller({
    ...trading,
    method: 'GET',
    answer({ url }, response) {
      asked.push(url)
      response.setHeader('content-type', 'text/plain')
      response.end(`weather of ${new URL(url, 'http://x').searchParams.get('city')}`)
    },
  })
  await startBuyer()
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await Promise.all([express, weather].map((one) => one?.stop()))
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

async function spent(work: () => Promise<unknown>): Promise<bigint> {
  const balance = () => devnet.chain.balanceOf(devnet.wallets.buyer.address)
  const before = await balance()
  await work()
  return before - (await balance())
}
type Ended = { id: string; status: string; output?: string; error?: { code: string }; payment?: { book: string } }
const order = async (id: string) => (await call(buyer.url, `/orders/${id}?wait=20`)).body as Ended
const place = async (body: object, headers = {}) => {
  const { status, body: placed } = await call(buyer.url, '/orders', { body, headers })
  return { status, ...(placed as { id: string; code?: string }) }
}
type Waiting = { id: string; order_id: string }
const approvalFor = (id: string) =>
  until(async () => {
    const { body } = await call(buyer.url, '/approvals?status=pending')
    return (body as Waiting[]).find(({ order_id }) => order_id === id)
  })
async function rules(changes: object) {
  await call(buyer.url, '/budget', { method: 'PUT', body: changes })
}

test('POST /orders with a URL asks the seller in the background, pays once, and keeps the result', async () => {
  const task = `placed-${randomUUID()}`
  const body = { url: express.url, price: '0.02', task, expected: { price: '0.01' } }
  const cost = await spent(async () => {
    const placed = await place(body, { 'idempotency-key': task })
    expect(placed).toMatchObject({ agent_id: express.url, seller_name: new URL(express.origin).host })
    expect(await order(placed.id)).toMatchObject({
      ...{
        status: 'completed',
        output: JSON.stringify({ said: task }),
        seller_id: expect.stringContaining(express.origin),
      },
      web: { url: express.url, method: 'POST', x402_version: 2 },
    })
    expect((await place(body, { 'idempotency-key': task })).id).toBe(placed.id)
    const other = { ...body, expected: { price: '0.02' } }
    expect(await place(other, { 'idempotency-key': task })).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' })
  })
  expect(cost).toBe(10_000n)
  expect(asked.filter((text) => text === JSON.stringify({ task }))).toHaveLength(1)
})

test('the limits of a placed order hold when it runs: nothing is signed above them or for other terms', async () => {
  const wrong: [object, string][] = [
    [{ price: '0.009' }, 'OVER_PRICE'],
    [{ price: '1', expected: { price: '0.009' } }, 'TERMS_REFUSED'],
    [{ price: '1', expected: { pay_to: `0x${'1'.repeat(40)}` } }, 'TERMS_REFUSED'],
  ]
  const cost = await spent(async () => {
    for (const [limits, code] of wrong) {
      const { id } = await place({ url: express.url, task: 'never', ...limits })
      expect(await order(id)).toMatchObject({ status: 'failed', error: { code } })
    }
    await rules({ deny: [new URL(express.origin).host] })
    const { id } = await place({ url: express.url, task: 'never', price: '1' })
    expect(await order(id)).toMatchObject({ status: 'failed', error: { code: 'SELLER_NOT_ALLOWED' } })
    await rules({ deny: [] })
  })
  expect([cost, asked.includes('{"task":"never"}')]).toEqual([0n, false])
  for (const url of ['http://10.0.0.1/x', 'https://user:pass@example.org/', 'nonsense']) {
    expect(await place({ url, task: 'x', price: '1' })).toMatchObject({ code: 'URL_REFUSED' })
  }
  for (const body of [
    { url: express.url, agent_id: echoId },
    { url: express.url, channel: 'auto' },
    { method: 'GET' },
  ]) {
    expect((await place({ price: '1', task: 'x', ...body })).status).toBe(400)
  }
})

test('an approval is about one request: another city at the same address asks again, the same one does not', async () => {
  await rules({ auto_approve_below: '0.005' })
  const url = (city: string) => `${weather.url}?city=${city}`
  const cost = await spent(async () => {
    const buy = async (city: string) => {
      const { body } = await call(buyer.url, '/execute', { body: { url: url(city), method: 'GET' } })
      return body as { code: string; order_id: string; approval_id: string }
    }
    const [oslo, rome, again] = [await buy('Oslo'), await buy('Rome'), await buy('Oslo')]
    expect([oslo.code, rome.code]).toEqual(['APPROVAL_REQUIRED', 'APPROVAL_REQUIRED'])
    expect(rome.order_id).not.toBe(oslo.order_id)
    expect(again.order_id).toBe(oslo.order_id)
    const { id } = await place({ url: url('Bergen'), method: 'GET', price: '0.01' })
    const waiting = await approvalFor(id)
    for (const approval of [oslo.approval_id, rome.approval_id, waiting.id]) {
      await call(buyer.url, `/approvals/${approval}/approve`, { method: 'POST', body: {} })
    }
    const outputs = [oslo.order_id, rome.order_id, id].map(async (one) => (await order(one)).output)
    expect(await Promise.all(outputs)).toEqual(['weather of Oslo', 'weather of Rome', 'weather of Bergen'])
  })
  expect(cost).toBe(30_000n)
  await rules({ auto_approve_below: null })
})

const workflow = (steps: CreateWorkflowBody['steps'], more: object = {}) =>
  call(buyer.url, '/workflows', { body: { input: 'Oslo', steps, ...more } })
async function ran(id: string) {
  const { body } = await call(buyer.url, `/workflows/${id}?wait=30`)
  return body as { status: string; output?: string; steps: { id: string; status: string; error?: { code: string } }[] }
}

test('a step of a workflow buys from a URL, and the next one works on its result', async () => {
  const steps = [
    { id: 'weather', url: `${weather.url}?city=Oslo`, method: 'GET' as const, max_price: '0.02' },
    {
      id: 'say',
      url: express.url,
      max_price: '0.02',
      expected: { price: '0.01' },
      input: 'It is {{steps.weather.output}}',
    },
  ]
  const quote = await call(buyer.url, '/workflows?dry_run=true', { body: { input: 'Oslo', steps } })
  expect(quote).toMatchObject({ status: 200, body: { total: '0.04', steps: [{ agent_id: weather.url }, {}] } })
  const cost = await spent(async () => {
    const { status, body } = await workflow(steps, { budget: '0.04' })
    expect(status).toBe(201)
    const done = await ran((body as { id: string }).id)
    expect(done).toMatchObject({
      status: 'completed',
      output: '{"said":"It is weather of Oslo"}',
      paid: expect.anything(),
    })
    expect(done.steps).toMatchObject([{ url: steps[0]!.url, agent_id: weather.url }, { url: express.url }])
  })
  expect(cost).toBe(20_000n)
})

test('a step at a URL has its limits: max_price, the budget, what is expected, an approval, and a fallback', async () => {
  const at = (more: object) => [{ id: 's', url: express.url, ...more }] as CreateWorkflowBody['steps']
  for (const [steps, more] of [
    [at({}), {}],
    [at({ max_price: '0.01', agent_id: echoId }), {}],
    [at({ max_price: '0.01', url: 'http://10.0.0.1/' }), {}],
    [at({ max_price: '0.02' }), { budget: '0.01' }],
    [[{ agent_id: echoId, method: 'GET' }], {}],
  ] as [CreateWorkflowBody['steps'], object][]) {
    expect((await workflow(steps, more)).status).toBe(400)
  }
  const cost = await spent(async () => {
    for (const [limits, code] of [
      [{ max_price: '0.009' }, 'OVER_PRICE'],
      [{ max_price: '0.02', expected: { price: '0.009' } }, 'TERMS_REFUSED'],
    ] as const) {
      const { body } = await workflow(at(limits))
      const failed = await ran((body as { id: string }).id)
      expect(failed).toMatchObject({ status: 'failed', steps: [{ error: { code } }] })
    }
  })
  expect(cost).toBe(0n)
  const definition = { name: 'own', description: 'Says it again', price: 0n }
  const own = await buyer.node.registerAgent(definition, { persist: false, run: async (task) => `${task}!` })
  const { body } = await workflow(at({ max_price: '0.009', fallback: [own.id] }))
  const fallen = await until(async () => {
    const now = await ran((body as { id: string }).id)
    return now.status === 'running' || now.status === 'pending' ? undefined : now
  })
  expect(fallen).toMatchObject({ status: 'completed', output: 'Oslo!', steps: [{ agent_id: own.id }] })
})

test('an order that waits for its seller outlives a restart, and is paid for once', async () => {
  await rules({ auto_approve_below: '0.005' })
  const { id } = await place({ url: express.url, task: 'later', price: '0.02' })
  const approval = await approvalFor(id)
  await buyer.stop()
  await startBuyer()
  await rules({ auto_approve_below: null })
  const cost = await spent(async () => {
    await call(buyer.url, `/approvals/${approval.id}/approve`, { method: 'POST', body: {} })
    expect(await order(id)).toMatchObject({ status: 'completed', output: '{"said":"later"}' })
  })
  expect(cost).toBe(10_000n)
})

test('buy_from_url takes what a catalog entry expects, and buys for no other terms', async () => {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${buyer.url}/mcp`)))
  onTestFinished(() => client.close())
  const buy = (expected: object) =>
    client.callTool({
      name: 'buy_from_url',
      arguments: { url: express.url, task: 'by tool', max_price: '1', expected },
    })
  const network = 'eip155:84532'
  const cost = await spent(async () => {
    for (const expected of [
      { price: '0.009' },
      { pay_to: `0x${'1'.repeat(40)}` },
      { price: '0.01', network: 'eip155:1' },
    ]) {
      expect(await buy(expected)).toMatchObject({ isError: true })
    }
    expect(JSON.stringify(await buy({ price: 'much' }))).toMatch(/expected\.price/)
    const terms = { price: '0.01', pay_to: devnet.wallets.seller.address, network }
    expect(await buy(terms)).toMatchObject({ structuredContent: { status: 'completed', output: '{"said":"by tool"}' } })
  })
  expect(cost).toBe(10_000n)
})

test('the receipt of x402 that came with a result over HTTP is given again, and none is made up', async () => {
  const url = `${seller.publicUrl}/x402/${echoId}`
  const bought = await buyer.node.buyUrl({ url, task: 'receipt', signal: NEVER })
  const receipt = async (id: string) => call(buyer.url, `/receipts/${id}/x402`)
  expect(await receipt(bought.payment!.payment_id)).toMatchObject({
    ...{ status: 200, body: { payload: { resourceUrl: url, transaction: bought.payment!.tx_hash } } },
  })
  const without = await buyer.node.buyUrl({ url: express.url, task: 'none', signal: NEVER })
  expect(await receipt(without.payment!.payment_id)).toMatchObject({ body: { code: 'SELLER_FAILED' } })
})
