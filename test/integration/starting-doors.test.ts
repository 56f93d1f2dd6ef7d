/** T23 While a node has not hosted its agents yet, no door says that they do not exist: each says to come again. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { agentIdOf } from '../../src/cli/node-access/references.ts'
import { createApiClient } from '../../src/http/client/client.ts'
import type { AgentDefinition } from '../../src/schema/agent.ts'
import { a2aClient, send as a2aMessage, resultOf, stateOf } from '../support/a2a-client.ts'
import { usdc } from '../support/payments.ts'
import { send, sendTask, signFor } from '../support/public-seller.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

const echo: AgentDefinition = { name: 'Echo', description: 'Says it again', price: 0n, model: 'builtin/echo' }
let seller: TestNode
let home: string
let id: string
const clients: Client[] = []

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-starting-'))
  const options = { dataDir: join(home, 'seller'), public: { port: 0 }, openai: { enabled: true } }
  const first = await startTestNode(options)
  id = (await first.node.registerAgent(echo, { persist: false })).id
  // It takes its agents off the market.
  await first.stop()
  seller = await startTestNode(options)
  seller.node.ownAgents.expect([echo])
})
afterAll(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
  await seller?.stop()
  await rm(home, { recursive: true, force: true })
})

async function overMcp() {
  const client = new Client({ name: 'test', version: '1.0.0' })
  clients.push(client)
  await client.connect(new StreamableHTTPClientTransport(new URL(`${seller.publicUrl}/mcp`)))
  const { tools } = await client.listTools()
  const name = `echo_${id.slice(0, 8)}`
  return { tools: tools.map((tool) => tool.name), ...(await client.callTool({ name, arguments: { task: 'hi' } })) }
}
const card = () => send(`${seller.publicUrl}/a2a/${id}/.well-known/agent-card.json`, { method: 'GET' })
const overHttp = () => sendTask(`${seller.publicUrl}/x402/${id}`, 'hi')
const index = async () => (await send(`${seller.publicUrl}/x402`, { method: 'GET' })).json
const asOpenAi = async (model: string) => {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] })
  const answer = await fetch(`${seller.url}/v1/chat/completions`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body },
  })
  return { status: answer.status, retryAfter: answer.headers.get('retry-after'), json: await answer.json() }
}
async function overA2a(base: string) {
  const inner = await a2aClient(`${base}/a2a/${id}`)
  return inner.sendMessage(a2aMessage('hi'), {} as never)
}

test('a call of an agent that the node will host says to try again, at every door', async () => {
  const soon = /just started/
  const tool = await overMcp()
  expect(tool).toMatchObject({ tools: [`echo_${id.slice(0, 8)}`], isError: true })
  expect(tool._meta).toMatchObject({ 'stoa/error': { code: 'BUSY', detail: expect.stringMatching(soon) } })
  expect(await overHttp()).toMatchObject({ status: 503, json: { error: { code: 'BUSY' } } })
  expect(await index()).toMatchObject({ agents: [{ agent_id: id }] })
  expect(await card()).toMatchObject({ status: 503, json: { error: { code: 'BUSY' } } })
  for (const model of ['Echo', id, 'auto']) {
    const answer = await asOpenAi(model)
    expect(answer).toMatchObject({ status: 503, retryAfter: '2', json: { error: { code: 'node_unavailable' } } })
  }
})

test('a payment that buys nothing is not told that the agent does not exist', async () => {
  const url = `${seller.publicUrl}/x402/${id}`
  const key = generatePrivateKey()
  const { address } = privateKeyToAccount(key)
  const terms = {
    ...{ x402Version: 2, resource: { url } },
    accepts: [
      {
        ...{ scheme: 'exact', network: 'eip155:84532', amount: '1', asset: usdc.address, payTo: address },
        ...{ maxTimeoutSeconds: 60, extra: { name: 'USDC', version: '2' } },
      },
    ],
  }
  const payment = await signFor(terms as Parameters<typeof signFor>[0], key)
  expect(await sendTask(url, 'hi', payment)).toMatchObject({ status: 503, json: { error: { code: 'BUSY' } } })
})

test('the tools of the node for its own programs say so too', async () => {
  const client = new Client({ name: 'test', version: '1.0.0' })
  clients.push(client)
  await client.connect(new StreamableHTTPClientTransport(new URL(`${seller.url}/mcp`)))
  for (const [name, args] of [
    ['execute_agent', { agent_id: id, task: 'hi', max_price: '0' }],
    ['quote_agent', { agent_id: id }],
    ['get_agent', { agent_id: id }],
  ] as const) {
    const { isError, _meta } = await client.callTool({ name, arguments: args })
    const error = { code: 'OVERLOADED', message: expect.stringMatching(/just started/), retryable: true }
    expect([name, isError, _meta]).toEqual([name, true, { 'stoa/error': error }])
  }
})

test('the API says so too, for each operation that names an agent, also as a stream', async () => {
  const ask = async (method: string, path: string, body?: object, accept = 'application/json') => {
    const headers = { accept, ...(body && { 'content-type': 'application/json' }) }
    const response = await fetch(seller.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    return { status: response.status, retryAfter: response.headers.get('retry-after'), json: await response.json() }
  }
  const json = { code: 'STARTING', retryable: true, detail: expect.stringMatching(/just started/) }
  for (const answer of [
    await ask('GET', '/agents/Echo'),
    await ask('GET', `/agents/${id}`),
    await ask('POST', `/agents/${id}/execute`, { task: 'hi' }),
    await ask('POST', '/execute', { agent_id: id, task: 'hi' }),
    await ask('POST', '/execute', { agent_id: id, task: 'hi' }, 'text/event-stream'),
    await ask('POST', `/agents/${id}/pause`),
    await ask('GET', `/sessions/${id}`),
  ])
    expect(answer).toMatchObject({ status: 503, retryAfter: '2', json })
  // An agent that was imported by hand does not come with the start.
  expect(await ask('DELETE', `/imports/${id}`)).toMatchObject({ status: 404, json: { code: 'UNKNOWN_AGENT' } })
})

test('the command line looks among the agents that are here, and then says to try again', async () => {
  const api = createApiClient({ baseUrl: seller.url }, { fetch })
  const { signal } = new AbortController()
  await expect(agentIdOf(api, 'Echo', { signal })).rejects.toMatchObject({ code: 'STARTING' })
  const paused = { ...echo, name: 'Paused', paused: true }
  await seller.node.ownAgents.keep(paused, { stored: false })
  const [kept] = seller.node.ownAgents.list().filter(({ name }) => name === 'Paused')
  expect(await agentIdOf(api, 'Paused', { signal })).toBe(kept!.id)
})

test('an A2A message to it is refused without a task that has failed', async () => {
  const { json } = await send(`${seller.publicUrl}/a2a/${id}`, {
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
      params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] } },
    }),
  })
  expect(JSON.stringify(json)).toMatch(/TASK_STATE_REJECTED.*just started.*Nothing has begun/)
})

test('then it works, and another that was expected and is not hosted is unknown', async () => {
  await seller.node.registerAgent(echo, { persist: false })
  expect(await overMcp()).toMatchObject({ content: [{ text: 'hi' }] })
  expect((await overHttp()).status).toBe(200)
  expect((await card()).status).toBe(200)
  expect(await asOpenAi('Echo')).toMatchObject({ status: 200 })
  const result = await overA2a(seller.publicUrl)
  expect([stateOf(result as never), resultOf(result as never)]).toEqual(['COMPLETED', 'hi'])

  seller.node.ownAgents.expect([{ ...echo, name: 'Other' }])
  expect(await asOpenAi('Other')).toMatchObject({ status: 503 })
  seller.node.ownAgents.expect([])
  expect(await asOpenAi('Other')).toMatchObject({ status: 404 })
})
