/** T36 D53: agents as paid MCP tools and over A2A on the public listener, bought by clients of others. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { x402Client } from '@x402/core/client'
import type { PaymentPayload, PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  findAcceptsObjectFromSignedOffer,
  verifyOfferSignatureEIP712,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureEIP712,
} from '@x402/extensions/offer-receipt'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { X402_EXTENSION } from '../../src/schema/a2a.ts'
import { TASK_BYTES_MAX } from '../../src/schema/limits.ts'
import { a2aClient, send as a2aMessage, asTask, resultOf, stateOf } from '../support/a2a-client.ts'
import { send, sendTask, termsAt } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

const PRICE = 20_000n
let devnet: Devnet
let seller: TestNode
let home: string
let paidId: string
const runs: string[] = []
const clients: Client[] = []

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-public-mcp-'))
  devnet = await startDevnet()
  const walletKey = devnet.wallets.seller.privateKey
  seller = await startTestNode({ devnet, walletKey, dataDir: join(home, 'seller'), public: { port: 0 } })
  const run = (task: string) => {
    runs.push(task)
    return task
  }
  const register = (name: string, price: bigint) =>
    seller.node.registerAgent({ name, description: 'Says it again', price }, { persist: false, run })
  paidId = (await register('Paid echo', PRICE)).id
  await register('free', 0n)
})
beforeEach(() => {
  runs.length = 0
})
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const earned = () => devnet.chain.balanceOf(devnet.wallets.seller.address)
const toolName = () => `paid_echo_${paidId.slice(0, 8)}`
const runsOf = (task: string) => runs.filter((run) => run === task).length

async function pay(required: PaymentRequired): Promise<PaymentPayload> {
  const signer = new ExactEvmScheme(privateKeyToAccount(devnet.wallets.buyer.privateKey))
  return new x402Client().register('eip155:84532', signer).createPaymentPayload(required)
}

async function connect(mode: 'auto' | 'legacy'): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  clients.push(client)
  await client.connect(new StreamableHTTPClientTransport(new URL(`${seller.publicUrl}/mcp`)))
  return client
}

/** One request as it is. The answer is the last message of its stream. */
async function rpc(message: object, headers: Record<string, string> = {}): Promise<Record<string, never>> {
  const accept = 'application/json, text/event-stream'
  const all = { accept, 'content-type': 'application/json', ...headers }
  const { text } = await send(`${seller.publicUrl}/mcp`, {
    headers: all,
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
  })
  const line = text.split('\n').findLast((one) => one.startsWith('data: {')) ?? text
  return JSON.parse(line.replace(/^data: /, ''))
}

describe.each(['legacy', 'auto'] as const)('an MCP client of others, %s', (mode) => {
  test('sees a tool for each agent with its price, is asked for a payment, pays, and gets result and receipt', async () => {
    const client = await connect(mode)
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toContain(toolName())
    expect(tools.find(({ name }) => name === toolName())!.description).toMatch(/0\.02 USDC/)
    expect(tools.map(({ name }) => name)).not.toContain('execute_agent')
    const call = { name: toolName(), arguments: { task: `by ${mode}` } }
    const asked = await client.callTool(call)
    expect(asked.isError).toBe(true)
    const required = asked.structuredContent as unknown as PaymentRequired
    expect(required).toMatchObject({ x402Version: 2, resource: { url: `${seller.publicUrl}/mcp` } })
    expect(JSON.parse((asked.content[0] as { text: string }).text)).toEqual(required)
    const before = await earned()
    const paid = { ...call, _meta: { 'x402/payment': await pay(required) } }
    const done = await client.callTool(paid as never)
    expect(done).toMatchObject({ content: [{ type: 'text', text: `by ${mode}` }] })
    const response = done._meta?.['x402/payment-response'] as {
      success: boolean
      extensions: Record<string, { info: { receipt: never } }>
    }
    expect(response.success).toBe(true)
    const { signer } = await verifyReceiptSignatureEIP712(response.extensions['offer-receipt']!.info.receipt)
    expect(signer).toBe(devnet.wallets.seller.address)
    // The same call again gets the stored result; another task with its payment buys nothing.
    expect(await client.callTool(paid as never)).toMatchObject({ content: [{ text: `by ${mode}` }] })
    const other = await client.callTool({ ...paid, arguments: { task: 'another' } } as never)
    expect(other).toMatchObject({ isError: true, _meta: { 'stoa/error': { code: 'PAYMENT_USED' } } })
    expect([runsOf(`by ${mode}`), runsOf('another')]).toEqual([1, 0])
    expect((await earned()) - before).toBe(PRICE)
    const { content } = await client.callTool({
      name: tools.find(({ name }) => name.startsWith('free_'))!.name,
      arguments: { task: 'hi' },
    })
    expect(content).toMatchObject([{ text: 'hi' }])
  })
})

type ExtendedResult = { paymentRequired: PaymentRequired; _meta: Record<string, unknown> }

describe('the extension binding', () => {
  /** As a client of the protocol of 2026 that has declared these extensions. */
  const call = async (task: string, extensions: object, payment?: PaymentPayload) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
      'io.modelcontextprotocol/clientCapabilities': { extensions },
      ...(payment && { 'x402/payment': payment }),
    }
    const message = { method: 'tools/call', params: { name: toolName(), arguments: { task }, _meta } }
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': toolName() }
    return (await rpc(message, headers)).result as unknown as ExtendedResult
  }
  const extension = { 'org.x402/payment': {} }

  test('is used only for a client that declares it', async () => {
    expect(await call('extended', extension)).toMatchObject({
      ...{ resultType: 'payment_required', paymentRequired: { x402Version: 2 } },
    })
    expect(await call('extended', {})).toMatchObject({ isError: true, structuredContent: { x402Version: 2 } })
    expect(runsOf('extended')).toBe(0)
  })

  test('asks, is paid, and gives result and receipt; what cannot be paid with is asked for again', async () => {
    const { paymentRequired } = await call('bought', extension)
    const payment = await pay(paymentRequired)
    const { authorization } = payment.payload as { authorization: object }
    const cheap = { ...payment, payload: { ...payment.payload, authorization: { ...authorization, value: '1' } } }
    const before = await earned()
    const again = await call('bought', extension, cheap)
    expect(again).toMatchObject({ resultType: 'payment_required', paymentRequired: { error: expect.any(String) } })
    expect(again.paymentRequired).not.toMatchObject({ error: 'Payment required' })
    expect(runsOf('bought')).toBe(0)
    const done = await call('bought', extension, payment)
    expect(done).toMatchObject({ resultType: 'complete', content: [{ type: 'text', text: 'bought' }] })
    const response = done._meta['x402/payment-response'] as { extensions: Record<string, { info: { receipt: never } }> }
    expect(response).toMatchObject({ success: true, payer: devnet.wallets.buyer.address })
    const { receipt } = response.extensions['offer-receipt']!.info
    expect((await verifyReceiptSignatureEIP712(receipt)).signer).toBe(devnet.wallets.seller.address)
    expect(await call('bought', extension, payment)).toMatchObject({ content: [{ text: 'bought' }] })
    const other = await call('another', extension, payment)
    expect(other).toMatchObject({ isError: true, _meta: { 'stoa/error': { code: 'PAYMENT_USED' } } })
    expect([runsOf('bought'), runsOf('another')]).toEqual([1, 0])
    expect((await earned()) - before).toBe(PRICE)
  })

  test('a payment that never settles keeps the result back and is asked for again', async () => {
    const { paymentRequired } = await call('poor', extension)
    const signer = new ExactEvmScheme(privateKeyToAccount(generatePrivateKey()))
    const payment = await new x402Client().register('eip155:84532', signer).createPaymentPayload(paymentRequired)
    const before = await earned()
    const refused = await call('poor', extension, payment)
    expect(refused).toMatchObject({ resultType: 'payment_required', content: [] })
    expect(JSON.stringify(refused)).not.toContain('"text":"poor"')
    expect(await earned()).toBe(before)
  })
})

test.each([
  ['8 MB of brackets', () => '['.repeat(4_000_000) + ']'.repeat(4_000_000), /nested deeper than 64 levels/],
  ['8 MB of empty objects', () => `[${'{},'.repeat(2_700_000)}{}]`, /more than 100000 values/],
  ['a prototype', () => '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"__proto__":{}}}', /__proto__/],
  ['half a message', () => '{"jsonrpc"', /not JSON/],
])('T8 T32 %s are refused before they are parsed', async (_, body, reason) => {
  const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
  const { status, json } = await send(`${seller.publicUrl}/mcp`, { headers, body: body() })
  expect([status, json]).toMatchObject([400, { error: { code: -32700, message: expect.stringMatching(reason) } }])
})

test.each([
  ['a host that is none', { host: '[' }, '/mcp'],
  ['a host with a space', { host: 'a b' }, '/mcp'],
  ['an address of somewhere else', {}, 'http://elsewhere.example/mcp'],
  ['an address without a host', {}, 'http:///mcp'],
])('T8 %s is no fault of the node', async (_, headers, path) => {
  const { port } = new URL(seller.publicUrl)
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  const plain = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
  const asked = request({ host: '127.0.0.1', port, path, method: 'POST', headers: { ...plain, ...headers } })
  asked.end(body)
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  answer.resume()
  expect(answer.statusCode).toBeLessThan(500)
})

test.each([
  ['a lone surrogate', '\ud800', /lone surrogate/],
  ['more bytes than a task may have', 'x'.repeat(TASK_BYTES_MAX + 1), /the limit is/],
])('D53 a task that no other door takes is refused before it is paid for or runs: %s', async (_what, task, reason) => {
  const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
  const had = runs.length
  const free = seller.node.listings().find(({ name }) => name === 'free')!
  for (const name of [toolName(), `free_${free.id.slice(0, 8)}`]) {
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: { task } } }
    const { text } = await send(`${seller.publicUrl}/mcp`, { headers, body: JSON.stringify(call) })
    expect(text).toContain('"isError":true')
    expect(text).toMatch(reason)
  }
  expect(runs.length).toBe(had)
})

test('T31 a batch of calls does not pass the limits of requests: one message is answered at a time', async () => {
  const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
  const name = toolName()
  const calls = [1, 2].map((id) => ({
    ...{ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: { task: 'of a batch' } } },
  }))
  const ask = (body: unknown) => send(`${seller.publicUrl}/mcp`, { headers, body: JSON.stringify(body) })
  const { status, json } = await ask(calls)
  expect([status, json]).toMatchObject([
    400,
    { error: { code: -32600, message: expect.stringMatching(/one message/) } },
  ])
  expect((await ask(calls.slice(1))).status).toBe(200)
})

test('T5 one payment buys nothing at a second door: MCP, HTTP and A2A share their claims', async () => {
  const client = await connect('legacy')
  const call = { name: toolName(), arguments: { task: 'once' } }
  const payment = await pay((await client.callTool(call)).structuredContent as never)
  await client.callTool({ ...call, _meta: { 'x402/payment': payment } } as never)
  const { resource: _, ...anywhere } = payment
  const header = Buffer.from(JSON.stringify(anywhere)).toString('base64')
  const http = await sendTask(`${seller.publicUrl}/x402/${paidId}`, 'once', { 'payment-signature': header })
  expect(http.status).toBe(409)
  const task = await overA2a('once', anywhere as PaymentPayload)
  expect(stateOf(task)).toBe('FAILED')
  expect(runsOf('once')).toBe(1)
})

test('a payment that accepts other terms than are asked, or names another resource, buys nothing over MCP and A2A', async () => {
  const client = await connect('legacy')
  const call = { name: toolName(), arguments: { task: 'for other terms' } }
  const payment = await pay((await client.callTool(call)).structuredContent as never)
  const waiting = await overA2a('for other terms')
  const forTask = await pay(waiting.status?.message?.metadata?.['x402.payment.required'] as never)
  const changes: ((sent: PaymentPayload) => PaymentPayload)[] = [
    (sent) => ({ ...sent, accepted: { ...sent.accepted, amount: '1' } }),
    (sent) => ({ ...sent, accepted: { ...sent.accepted, payTo: `0x${'12'.repeat(20)}` } }),
    (sent) => ({ ...sent, accepted: { ...sent.accepted, maxTimeoutSeconds: 7 } }),
    (sent) => ({ ...sent, resource: { ...sent.resource!, url: `${sent.resource!.url}x` } }),
  ]
  const reason = /No matching payment requirements|another resource/
  const before = await earned()
  for (const change of changes) {
    const tool = await client.callTool({ ...call, _meta: { 'x402/payment': change(payment) } } as never)
    expect(tool).toMatchObject({ isError: true, structuredContent: { error: expect.stringMatching(reason) } })
    const task = await overA2a('for other terms', change(forTask))
    expect([stateOf(task), JSON.stringify(task.status)]).toEqual(['FAILED', expect.stringMatching(reason)])
  }
  expect(runsOf('for other terms')).toBe(0)
  // They were not used up.
  await client.callTool({ ...call, _meta: { 'x402/payment': payment } } as never)
  expect(stateOf(await overA2a('for other terms', forTask))).toBe('COMPLETED')
  expect((await earned()) - before).toBe(2n * PRICE)
})

test('D28: a client that signs for an hour, whatever is asked, as the Go client does, buys at every door', async () => {
  const hour = async (required: PaymentRequired) => {
    const [accepted] = required.accepts
    const longer = { ...required, accepts: [{ ...accepted!, maxTimeoutSeconds: 3_600 }] }
    return { ...(await pay(longer)), accepted: accepted! }
  }
  const before = await earned()
  const client = await connect('legacy')
  const call = { name: toolName(), arguments: { task: 'for an hour' } }
  const payment = await hour((await client.callTool(call)).structuredContent as never)
  const tool = await client.callTool({ ...call, _meta: { 'x402/payment': payment } } as never)
  expect(tool).toMatchObject({ content: [{ text: 'for an hour' }] })
  const url = `${seller.publicUrl}/x402/${paidId}`
  const header = Buffer.from(JSON.stringify(await hour(await termsAt(url)))).toString('base64')
  expect(await sendTask(url, 'for an hour', { 'payment-signature': header })).toMatchObject({ status: 200 })
  const asked = await overA2a('for an hour')
  const done = await overA2a(
    'for an hour',
    await hour(asked.status?.message?.metadata?.['x402.payment.required'] as never),
  )
  expect([stateOf(done), runsOf('for an hour')]).toEqual(['COMPLETED', 3])
  expect((await earned()) - before).toBe(3n * PRICE)
})

async function overA2a(text: string, payment?: PaymentPayload) {
  const inner = await a2aClient(`${seller.publicUrl}/a2a/${paidId}`)
  const metadata = { 'x402.payment.status': 'payment-submitted', 'x402.payment.payload': payment }
  const serviceParameters = { 'A2A-Extensions': X402_EXTENSION }
  return asTask(await inner.sendMessage(a2aMessage(text, payment && { metadata }), { serviceParameters } as never))
}

describe('A2A on the public listener', () => {
  test('an agent is found by its card, asks for a payment and is paid', async () => {
    const card = await (await fetch(`${seller.publicUrl}/a2a/${paidId}/.well-known/agent-card.json`)).json()
    expect(card).toMatchObject({ name: 'Paid echo', url: `${seller.publicUrl}/a2a/${paidId}` })
    expect(card).not.toHaveProperty('security')
    const asked = await overA2a('over A2A')
    const required = asked.status?.message?.metadata?.['x402.payment.required'] as PaymentRequired
    const before = await earned()
    const done = await overA2a('over A2A', await pay(required))
    expect([stateOf(done), resultOf(done)]).toEqual(['COMPLETED', 'over A2A'])
    const [offer] = decodeSignedOffers(extractOffersFromPaymentRequired(required))
    expect(findAcceptsObjectFromSignedOffer(offer!, required.accepts)).toEqual(required.accepts[0])
    expect((await verifyOfferSignatureEIP712(offer!.signedOffer as never)).signer).toBe(devnet.wallets.seller.address)
    const [settled] = done.status!.message!.metadata!['x402.payment.receipts'] as [
      { transaction: string; extensions: Record<string, { info: { receipt: never } }> },
    ]
    const { receipt } = settled.extensions['offer-receipt']!.info
    const { signer, payload } = await verifyReceiptSignatureEIP712(receipt)
    expect(signer).toBe(devnet.wallets.seller.address)
    expect(payload).toMatchObject({ resourceUrl: required.resource!.url, transaction: settled.transaction })
    expect(verifyReceiptMatchesOffer(receipt, offer!, [devnet.wallets.buyer.address])).toBe(true)
    expect((await earned()) - before).toBe(PRICE)
  })

  test('the node itself is no agent there, and nobody lists or takes the tasks of others', async () => {
    expect((await send(`${seller.publicUrl}/a2a/market/.well-known/agent-card.json`, { method: 'GET' })).status).toBe(
      404,
    )
    expect(
      (await send(`${seller.publicUrl}/a2a/market`, { headers: { 'content-type': 'application/json' }, body: '{}' }))
        .status,
    ).toBe(404)
    const ask = async (method: string, params: object) => {
      const headers = { 'content-type': 'application/json', 'a2a-version': '1.0', 'a2a-extensions': X402_EXTENSION }
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
      return (await send(`${seller.publicUrl}/a2a/${paidId}`, { headers, body })).json as {
        result?: unknown
        error?: unknown
      }
    }
    const message = { messageId: '1', role: 'ROLE_USER', parts: [{ text: 'same words' }] }
    const [one, two] = [await ask('SendMessage', { message }), await ask('SendMessage', { message })]
    const idOf = ({ result }: typeof one) => (result as { task: { id: string } }).task.id
    expect(idOf(one)).not.toBe(idOf(two))
    // A2A's list holds what the caller may see. These callers prove nothing, so theirs is empty.
    expect(await ask('ListTasks', {})).toMatchObject({ result: { tasks: [], nextPageToken: '', totalSize: 0 } })
    expect(await ask('ListTasks', { pageSize: 0 })).toMatchObject({ error: { code: -32602 } })
    const found = await ask('GetTask', { id: idOf(one) })
    expect(found).toMatchObject({ result: { id: idOf(one) } })
  })
})
