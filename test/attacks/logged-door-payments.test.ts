/** T21 T36, hazard 7.16: a payment is in no log, whichever way it comes to the public listener: v1, streams, MCP in both forms, A2A. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { x402Client } from '@x402/core/client'
import type { PaymentPayload, PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { X402_EXTENSION } from '../../src/schema/a2a.ts'
import { a2aClient, send as a2aMessage, asTask } from '../support/a2a-client.ts'
import { type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { startLoggedSeller } from '../support/logged-seller.ts'
import { sendTask, termsAt } from '../support/public-seller.ts'
import type { TestNode } from '../support/test-node.ts'

const TASK = 'a task that only its seller reads'
let devnet: Devnet
let facilitator: FaultyFacilitator
let seller: TestNode
let log = ''
let idOf: Record<string, string>

beforeAll(async () => {
  devnet = await startDevnet()
  facilitator = await startFaultyFacilitator(devnet.facilitatorUrl)
  const write = (text: string) => {
    log += text
  }
  // The libraries behind MCP and A2A print by themselves.
  for (const name of ['log', 'info', 'warn', 'error', 'debug'] as const)
    vi.spyOn(console, name).mockImplementation((...said: unknown[]) => write(said.map(String).join(' ')))
  const started = await startLoggedSeller({ devnet, facilitatorUrl: facilitator.url }, write)
  seller = started.seller
  idOf = started.idOf
})
afterAll(async () => {
  await seller?.stop()
  await facilitator?.stop()
  await devnet?.stop()
  vi.restoreAllMocks()
})

/** A way to an agent: what it asks, and how a payment is sent. */
type Way = {
  asks(name: string): Promise<PaymentRequired>
  /** @returns what came back, as text */
  send(name: string, task: string, payment: PaymentPayload): Promise<string>
}
const encoded = (payment: object) => Buffer.from(JSON.stringify(payment)).toString('base64')
const urlOf = (name: string) => `${seller.publicUrl}/x402/${idOf[name]}`

async function callTool(name: string, task: string, meta?: object) {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${seller.publicUrl}/mcp`)))
  const call = { name: `${name}_${idOf[name]!.slice(0, 8)}`, arguments: { task }, ...(meta && { _meta: meta }) }
  return client.callTool(call as never).finally(() => client.close())
}
const toolAsks = async (name: string) => (await callTool(name, TASK)).structuredContent as unknown as PaymentRequired
async function message(name: string, task: string, metadata?: Record<string, unknown>) {
  const client = await a2aClient(`${seller.publicUrl}/a2a/${idOf[name]}`)
  const serviceParameters = { 'A2A-Extensions': X402_EXTENSION }
  return asTask(await client.sendMessage(a2aMessage(task, metadata && { metadata }), { serviceParameters } as never))
}

const ways: [string, Way][] = [
  [
    'v1',
    {
      asks: (name) => termsAt(urlOf(name)),
      async send(name, task, { payload }) {
        const old = { x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload }
        return (await sendTask(urlOf(name), task, { 'x-payment': encoded(old) })).text
      },
    },
  ],
  [
    'a stream',
    {
      asks: (name) => termsAt(`${urlOf(name)}/stream`),
      send: async (name, task, payment) =>
        (await sendTask(`${urlOf(name)}/stream`, task, { 'payment-signature': encoded(payment) })).text,
    },
  ],
  [
    'MCP',
    {
      asks: toolAsks,
      send: async (name, task, payment) => JSON.stringify(await callTool(name, task, { 'x402/payment': payment })),
    },
  ],
  [
    'MCP, as text',
    {
      asks: toolAsks,
      send: async (name, task, payment) =>
        JSON.stringify(await callTool(name, task, { 'x402.payment': encoded(payment) })),
    },
  ],
  [
    'A2A',
    {
      asks: async (name) => (await message(name, TASK)).status?.message?.metadata?.['x402.payment.required'] as never,
      async send(name, task, payment) {
        const metadata = { 'x402.payment.status': 'payment-submitted', 'x402.payment.payload': payment }
        return JSON.stringify(await message(name, task, metadata).catch(String))
      },
    },
  ],
]

test.each(ways)(
  'no payment by %s is in the log: sold, used, refused, unreadable, unsettled, failed',
  async (_, way) => {
    const secrets: string[] = []
    const scheme = new ExactEvmScheme(privateKeyToAccount(devnet.wallets.buyer.privateKey))
    const pay = async (name: string) => {
      const payment = await new x402Client().register('eip155:84532', scheme).createPaymentPayload(await way.asks(name))
      const { signature } = payment.payload as { signature: string }
      expect(signature).toMatch(/^0x[0-9a-f]{130}$/)
      secrets.push(signature.slice(2), signature.slice(2, 102), encoded(payment).slice(0, 400))
      return payment
    }
    const from = log.length
    const sold = await pay('echo')
    expect(await way.send('echo', TASK, sold)).toContain(TASK)
    await way.send('echo', 'another task', sold)
    const payload = sold.payload as { signature: string; authorization: object }
    const dear = { ...payload, authorization: { ...payload.authorization, value: '2000' } }
    await way.send('echo', TASK, { ...sold, payload: dear })
    await way.send('echo', TASK, { ...sold, payload: { ...payload, signature: payload.signature.slice(0, -2) } })
    const unsettled = await pay('echo')
    const { signature } = unsettled.payload as { signature: string }
    facilitator.faults.push({ kind: 'refuse', reason: `no: ${signature}` })
    await way.send('echo', TASK, unsettled)
    expect(facilitator.faults).toEqual([])
    await way.send('fails', TASK, await pay('fails'))
    const told = log.slice(from)
    expect(told).toContain('a paid run is done')
    expect(told).toContain('a paid run failed')
    for (const secret of [...secrets, TASK]) expect(told.toLowerCase()).not.toContain(secret.toLowerCase())
  },
)
