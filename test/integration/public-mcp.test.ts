/** T36 D53: agents as paid MCP tools and over A2A on the public listener, bought by clients of others. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { x402Client } from '@x402/core/client'
import type { PaymentPayload, PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { X402_EXTENSION } from '../../src/schema/a2a.ts'
import { a2aClient, send as a2aMessage, asTask, resultOf, stateOf } from '../support/a2a-client.ts'
import { send, sendTask } from '../support/public-seller.ts'
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

test('the extension binding is used only for a client that declares it', async () => {
  const call = (extensions: object) =>
    rpc(
      {
        method: 'tools/call',
        params: {
          ...{ name: toolName(), arguments: { task: 'extended' } },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
            'io.modelcontextprotocol/clientCapabilities': { extensions },
          },
        },
      },
      { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': toolName() },
    )
  expect(await call({ 'org.x402/payment': {} })).toMatchObject({
    result: { resultType: 'payment_required', paymentRequired: { x402Version: 2 } },
  })
  expect(await call({})).toMatchObject({ result: { isError: true, structuredContent: { x402Version: 2 } } })
  expect(runsOf('extended')).toBe(0)
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
  const task = await overA2a('once', payment)
  expect(stateOf(task)).toBe('FAILED')
  expect(runsOf('once')).toBe(1)
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
    expect(card).not.toHaveProperty('securitySchemes')
    const asked = await overA2a('over A2A')
    const required = asked.status?.message?.metadata?.['x402.payment.required'] as PaymentRequired
    const before = await earned()
    const done = await overA2a('over A2A', await pay(required))
    expect([stateOf(done), resultOf(done)]).toEqual(['COMPLETED', 'over A2A'])
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
    expect(await ask('ListTasks', {})).toMatchObject({ error: expect.anything() })
    const message = { messageId: '1', role: 'ROLE_USER', parts: [{ text: 'same words' }] }
    const [one, two] = [await ask('SendMessage', { message }), await ask('SendMessage', { message })]
    const idOf = ({ result }: typeof one) => (result as { task: { id: string } }).task.id
    expect(idOf(one)).not.toBe(idOf(two))
  })
})
