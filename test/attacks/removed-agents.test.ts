/** T23 hazard 7.11: an agent leaves the market while buyers of it have paid and not heard. Each door still gives them what they bought. */
import { randomUUID } from 'node:crypto'
import type { Task } from '@a2a-js/sdk'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { X402_EXTENSION } from '../../src/schema/a2a.ts'
import { a2aClient, asTask, bindings, send as message, resultOf, stateOf } from '../support/a2a-client.ts'
import { sendTask, signFor, termsAt } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 20_000n
let devnet: Devnet
let seller: TestNode
let id: string
let runs: string[] = []
let gate = Promise.withResolvers<void>()

beforeAll(async () => {
  devnet = await startDevnet()
  seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey, public: { port: 0 } })
})
beforeEach(async () => {
  runs = []
  gate = Promise.withResolvers()
  gate.resolve()
  const run = async (task: string) => {
    runs.push(task)
    await gate.promise
    return `done: ${task}`
  }
  const definition = { name: 'Leaving', description: 'Says it again', price: PRICE }
  id = (await seller.node.registerAgent(definition, { persist: false, run })).id
})
afterEach(async () => {
  gate.resolve()
  await seller.node.ownAgents.remove(id).catch(() => {})
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
})

const ways = [
  ['removed', () => seller.node.ownAgents.remove(id)],
  ['paused', () => seller.node.ownAgents.setPaused(id, true)],
] as const

async function pay(required: PaymentRequired) {
  const signer = new ExactEvmScheme(privateKeyToAccount(devnet.wallets.buyer.privateKey))
  return new x402Client().register('eip155:84532', signer).createPaymentPayload(required)
}

async function mcp(): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${seller.publicUrl}/mcp`)))
  return client
}
const a2a = (binding = bindings[0]!) => a2aClient(`${seller.publicUrl}/a2a/${id}`, binding)
const mine = randomUUID()
const by = { serviceParameters: { 'A2A-Extensions': X402_EXTENSION, 'Stoa-Caller': mine } } as never
const named = (task: Task) => ({ tenant: '', id: task.id, historyLength: undefined, metadata: undefined })

describe.each(ways)('when an agent is %s', (_way, leave) => {
  test('a call over MCP that is sent again gets its result, and another task with its payment nothing', async () => {
    const client = await mcp()
    const call = { name: `leaving_${id.slice(0, 8)}`, arguments: { task: 'say it' } }
    const asked = await client.callTool(call)
    const paid = { ...call, _meta: { 'x402/payment': await pay(asked.structuredContent as never) } }
    expect(await client.callTool(paid as never)).toMatchObject({ content: [{ text: 'done: say it' }] })
    await leave()
    expect(await client.callTool(paid as never)).toMatchObject({ content: [{ text: 'done: say it' }] })
    const other = { ...paid, arguments: { task: 'another' } }
    expect(await client.callTool(other as never)).toMatchObject({
      ...{ isError: true, _meta: { 'stoa/error': { code: 'PAYMENT_USED' } } },
    })
    await expect(client.callTool(call)).rejects.toThrow(/not found/)
    expect(runs).toEqual(['say it'])
    await client.close()
  })

  test.each(bindings)(
    'an A2A task that was paid for over $binding $version ends, and its caller reads it',
    async (binding) => {
      const client = await a2a(binding)
      const asked = asTask(await client.sendMessage(message('say it'), by))
      const required = asked.status?.message?.metadata?.['x402.payment.required'] as PaymentRequired
      const metadata = { 'x402.payment.status': 'payment-submitted', 'x402.payment.payload': await pay(required) }
      gate = Promise.withResolvers()
      const answer = client.sendMessage(message('the payment', { taskId: asked.id, metadata }), by)
      await until(() => runs.length === 1)
      await leave()
      expect(stateOf(await client.getTask(named(asked), by))).toBe('WORKING')
      gate.resolve()
      expect(stateOf(asTask(await answer))).toBe('COMPLETED')
      expect(resultOf(await client.getTask(named(asked), by))).toBe('done: say it')
    },
  )

  test('a request of x402 that is sent again gets its result', async () => {
    const url = `${seller.publicUrl}/x402/${id}`
    const payment = await signFor(await termsAt(url), devnet.wallets.buyer.privateKey)
    expect(await sendTask(url, 'say it', payment)).toMatchObject({ status: 200 })
    await leave()
    expect(await sendTask(url, 'say it', payment)).toMatchObject({ status: 200, json: { result: 'done: say it' } })
    expect(await sendTask(url, 'another', payment)).toMatchObject({ status: 409 })
    expect((await sendTask(url, 'say it')).status).toBe(404)
    expect(runs).toEqual(['say it'])
  })
})

test('over A2A nobody begins a task of an agent that has left, or pays for one', async () => {
  const client = await a2a()
  const asked = asTask(await client.sendMessage(message('say it'), by))
  const required = asked.status?.message?.metadata?.['x402.payment.required'] as PaymentRequired
  const metadata = { 'x402.payment.status': 'payment-submitted', 'x402.payment.payload': await pay(required) }
  await seller.node.ownAgents.setPaused(id, true)
  await expect(client.sendMessage(message('say it'), by)).rejects.toThrow(/not for sale now/)
  const paying = message('the payment', { taskId: asked.id, metadata })
  await expect(client.sendMessage(paying, by)).rejects.toThrow(/not for sale now/)
  await expect(client.getTask({ ...named(asked), id: randomUUID() }, by)).rejects.toThrow(/not found/i)
  expect((await fetch(`${seller.publicUrl}/a2a/${id}/.well-known/agent-card.json`)).status).toBe(404)
  // The task waits, and the same payment buys it when the agent is back.
  await seller.node.ownAgents.setPaused(id, false)
  expect(resultOf(asTask(await client.sendMessage(paying, by)))).toBe('done: say it')
})
