/** Agents that exist elsewhere and speak A2A, sold here: the real client, a real node behind it, and worse. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createRuntimeFactory } from '../../src/agents/create-runtime.ts'
import { createRegistry } from '../../src/agents/registry.ts'
import type { AgentError } from '../../src/agents/runtime.ts'
import type { Logger } from '../../src/lib/logger.ts'
import { X402_EXTENSION } from '../../src/schema/a2a.ts'
import { AgentDefinition } from '../../src/schema/agent.ts'
import { a2aClient, stateOf } from '../support/a2a-client.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const TOKEN = 'remote-token-123456'
let remote: TestNode
const servers: Server[] = []
const ids: Record<string, string> = {}

beforeAll(async () => {
  remote = await startTestNode()
  const paid = { price: 10_000n, model: 'builtin/echo' }
  const slow = { price: 0n, command: [process.execPath, '-e', 'setInterval(() => {}, 1000)'] }
  const broken = { price: 0n, command: [process.execPath, '-e', 'process.exit(1)'] }
  for (const [name, what] of Object.entries({ echo: { price: 0n, model: 'builtin/echo' }, paid, slow, broken })) {
    ids[name] = (await remote.node.registerAgent({ name, description: name, ...what }, { persist: false })).id
  }
})
afterAll(() => remote?.stop())
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

type Handler = (request: IncomingMessage, response: ServerResponse, body: Record<string, never>, url: string) => unknown
async function serve(handler: Handler): Promise<string> {
  const server = createServer(async (request, response) => {
    const body = request.method === 'POST' ? ((await json(request)) as Record<string, never>) : {}
    handler(request, response, body, url)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  servers.push(server)
  return url
}
const card = (url: string) => ({
  name: 'x',
  description: 'x',
  version: '1',
  capabilities: {},
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
  supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
})
const sendJson = (response: ServerResponse, value: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
/** An A2A agent whose answers are the test's. */
const agentThat = (answer: (call: { id: unknown; method: string; params: never }) => object) =>
  serve((request, response, body, url) => {
    if (request.method === 'GET') return sendJson(response, card(`${url}/`))
    const { id, method, params } = body as { id?: unknown; method?: string; params?: never }
    return sendJson(response, {
      jsonrpc: '2.0',
      id,
      result: answer({ id, method: method ?? '', params: params as never }),
    })
  })
const task = (state: string, more: object = {}) => ({ id: 't', contextId: 'c', status: { state }, ...more })

let logged: string[] = []
async function host(a2a: string, fields: object = {}) {
  logged = []
  const record = (data: object, said: string) => logged.push(JSON.stringify({ ...data, said }))
  const logger: Logger = { debug: record, info: record, warn: record, error: record, child: () => logger }
  const readKey = (name: string) => (name === 'REMOTE_TOKEN' ? TOKEN : undefined)
  const createRuntime = createRuntimeFactory({ providerKeys: {}, readKey, dataDir: '.' }, { fetch, logger })
  const registry = createRegistry({ sellerId: '12D3KooW', agentsMax: 1 }, { createRuntime })
  return registry.register(AgentDefinition.parse({ name: 'a', description: 'd', price: 1, a2a, ...fields }))
}
type Hosted = Awaited<ReturnType<typeof host>>
const call = (input = 'hello', callerId = 'did:peer:a', signal = new AbortController().signal) => ({
  input,
  callerId,
  history: [],
  signal,
})
const failure = (agent: Hosted, signal?: AbortSignal): Promise<AgentError> =>
  agent.run(call('hello', 'did:peer:a', signal)).then(
    (output) => expect.fail(`gave ${output}`),
    (error: AgentError) => error,
  )

test.each([
  ['the agent', (id: string) => `${remote.url}/a2a/${id}`],
  ['the agent, with a slash', (id: string) => `${remote.url}/a2a/${id}/`],
  ['its card', (id: string) => `${remote.url}/a2a/${id}/.well-known/agent-card.json`],
])('the URL of %s is enough', async (_, urlOf) => {
  const agent = await host(urlOf(ids.echo!))
  expect(agent.model).toBe('a2a')
  expect(await agent.run(call('over there'))).toBe('over there')
})

test('it is sold like any other: bought over HTTP of the node that lists it', async () => {
  const seller = await startTestNode()
  try {
    const definition = AgentDefinition.parse({
      name: 'front',
      description: 'd',
      price: 0,
      a2a: `${remote.url}/a2a/${ids.echo}`,
    })
    const listing = await seller.node.registerAgent(definition, { persist: false })
    expect(listing.model).toBe('a2a')
    const signal = new AbortController().signal
    expect((await seller.node.execute({ agentId: listing.id, input: 'through', signal })).output).toBe('through')
  } finally {
    await seller.stop()
  }
})

test('an agent of 0.3 is asked in its own words', async () => {
  const methods: string[] = []
  const url = await serve((request, response, body, own) => {
    if (request.method === 'GET') {
      const { supportedInterfaces: _, ...old } = card(own)
      if (!request.url?.endsWith('agent.json')) return sendJson(response, {}, 404)
      return sendJson(response, { ...old, url: `${own}/`, protocolVersion: '0.3.0', preferredTransport: 'JSONRPC' })
    }
    const { id, method } = body as { id?: unknown; method?: string }
    methods.push(method!)
    const parts = [{ kind: 'text', text: 'an old answer' }]
    return sendJson(response, { jsonrpc: '2.0', id, result: { kind: 'message', messageId: 'm', role: 'agent', parts } })
  })
  expect(await (await host(url)).run(call())).toBe('an old answer')
  expect(methods).toEqual(['message/send'])
})

test('a task done in the background is waited for', async () => {
  let looks = 0
  const url = await agentThat(({ method }) => {
    if (method === 'SendMessage') return { task: task('TASK_STATE_SUBMITTED') }
    return ++looks < 3
      ? task('TASK_STATE_WORKING')
      : task('TASK_STATE_COMPLETED', { artifacts: [{ artifactId: 'r', parts: [{ text: 'late' }] }] })
  })
  expect(await (await host(url)).run(call())).toBe('late')
})

test('T9 each caller has a conversation of its own there', async () => {
  const seen: unknown[] = []
  let contexts = 0
  const url = await agentThat(({ params }) => {
    const { message } = params as { message: { contextId?: string } }
    seen.push(message.contextId)
    const contextId = message.contextId || `context-${++contexts}`
    return { message: { messageId: 'm', role: 'ROLE_AGENT', contextId, parts: [{ text: 'ok' }] } }
  })
  const agent = await host(url)
  for (const caller of ['did:peer:a', 'did:peer:b', 'did:peer:a', 'did:peer:b']) await agent.run(call('hi', caller))
  expect(seen).toEqual([undefined, undefined, 'context-1', 'context-2'])
})

test('a canceled task is canceled there too', async () => {
  const url = `${remote.url}/a2a/${ids.slow}`
  const stop = new AbortController()
  const ended = failure(await host(url), stop.signal)
  const there = await a2aClient(url)
  const query = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined }
  const states = async () => (await there.listTasks(query)).tasks.map(stateOf)
  await until(async () => (await states()).includes('WORKING'))
  stop.abort()
  expect((await ended).code).toBe('AGENT_CANCELLED')
  await until(async () => (await states()).join() === 'CANCELED')
})

test.each([
  ['fails', () => `${remote.url}/a2a/${ids.broken}`, 'AGENT_FAILED'],
  ['does not exist', () => `${remote.url}/a2a/${'a'.repeat(32)}`, 'AGENT_FAILED'],
  ['is not there', () => 'http://127.0.0.1:1', 'AGENT_FAILED'],
])('an agent that %s fails the task in words a buyer may read', async (_, urlOf, code) => {
  const failed = await failure(await host(urlOf()))
  expect(failed.code).toBe(code)
  expect(failed.message).not.toContain('127.0.0.1')
})

test('an agent that wants to be paid itself is nobody to sell', async () => {
  const metadata = { 'x402.payment.status': 'payment-required' }
  const message = { messageId: 'm', role: 'ROLE_AGENT', parts: [], metadata }
  const asking = task('', { status: { state: 'TASK_STATE_INPUT_REQUIRED', message } })
  const url = await agentThat(({ method }) => (method === 'SendMessage' ? { task: asking } : asking))
  expect(await failure(await host(url))).toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
})

test('ADR-22 a paid Stoa agent is not asked without max_price, and its seller is told which field to set', async () => {
  const url = `${remote.url}/a2a/${ids.paid}`
  const failed = await failure(await host(url))
  expect([failed.code, failed.message]).toEqual([
    'AGENT_NOT_RUNNABLE',
    'the agent behind this one is paid: its seller must set `max_price`',
  ])
  expect(logged.join()).toMatch(/write max_price.*agents\.yaml/)
  const query = { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined }
  expect((await (await a2aClient(url)).listTasks(query)).tasks).toEqual([])
})

test('an agent that demands payment and names no listing is not bought, and the log says why', async () => {
  const extensions = [{ uri: X402_EXTENSION, required: true }]
  const url = await serve((_, response, __, own) =>
    sendJson(response, { ...card(`${own}/`), capabilities: { extensions } }),
  )
  const failed = await failure(await host(url, { max_price: 1 }))
  expect(failed).toMatchObject({ code: 'AGENT_NOT_RUNNABLE', message: expect.stringContaining('paid itself') })
  expect(logged.join()).toMatch(/urn:stoa:a2a:agent:v1.*nothing was signed/)
})

test('T7 a server that asks for payment without end is asked once', async () => {
  const asked: string[] = []
  const metadata = {
    'x402.payment.status': 'payment-required',
    'x402.payment.required': { accepts: [{ amount: '10000', network: 'eip155:84532' }] },
  }
  const message = { messageId: 'm', role: 'ROLE_AGENT', parts: [], metadata }
  const asking = task('', { status: { state: 'TASK_STATE_INPUT_REQUIRED', message } })
  const url = await agentThat(({ method }) => {
    asked.push(method)
    return method === 'SendMessage' ? { task: asking } : asking
  })
  expect((await failure(await host(url, { max_price: 1 }))).code).toBe('AGENT_NOT_RUNNABLE')
  expect(logged.join()).toMatch(/asks for 0\.01 USDC on eip155:84532.*nothing was signed/)
  expect(asked.filter((method) => method === 'SendMessage')).toHaveLength(1)
})

test('agents that ask one another end at a number of hops: a loop of free ones too', async () => {
  const hops: unknown[] = []
  const url = await agentThat(({ params }) => {
    hops.push((params as { message: { metadata?: Record<string, unknown> } }).message.metadata?.['stoa.hops'])
    return { message: { messageId: 'm', role: 'ROLE_AGENT', contextId: 'c', parts: [{ text: 'ok' }] } }
  })
  const agent = await host(url)
  const asked = (count: number) => ({ ...call(), origin: { id: 'x', isPaid: false, hops: count } })
  expect(await agent.run(asked(3))).toBe('ok')
  await expect(agent.run(asked(4))).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  expect(hops).toEqual([4])
})

test('an agent that may pay more than it earns is kept, and its seller is warned', async () => {
  const agent = await host(remote.url, { price: 0.01, max_price: 0.02 })
  expect([agent.notice, agent.lacks]).toEqual([expect.stringMatching(/at a loss.*0\.01 USDC.*0\.02/), undefined])
  expect((await host(remote.url, { price: 0.02, max_price: 0.02 })).notice).toBeUndefined()
})

test.each([
  ['a model', { model: 'builtin/echo', max_price: 1 }],
  ['nothing', { a2a: 'https://a.example', max_price: 0 }],
])('max_price with %s is refused', (_, fields) => {
  const parsed = AgentDefinition.safeParse({ name: 'a', description: 'd', price: 1, ...fields })
  expect(parsed.error?.issues[0]?.path).toEqual(['max_price'])
})

test('T7 an answer without end is cut off', async () => {
  const url = await agentThat(() => ({
    message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'x'.repeat(20_000_000) }] },
  }))
  expect((await failure(await host(url))).code).toBe('AGENT_OUTPUT_TOO_LARGE')
})

test('T12 the token goes to the address the operator wrote, and nowhere a card or a redirect leads', async () => {
  const stolen: (string | undefined)[] = []
  const thief = await serve((request, response) => {
    stolen.push(request.headers.authorization)
    sendJson(response, {})
  })
  const tokens: (string | undefined)[] = []
  const misleading = await serve((request, response) => {
    tokens.push(request.headers.authorization)
    sendJson(response, card(`${thief}/`))
  })
  const redirecting = await serve((_, response) => response.writeHead(307, { location: `${thief}/` }).end())
  for (const [url, code] of [
    [misleading, 'AGENT_NOT_RUNNABLE'],
    [redirecting, 'AGENT_FAILED'],
  ] as const) {
    expect((await failure(await host(url, { api_key_env: 'REMOTE_TOKEN' }))).code).toBe(code)
  }
  expect(tokens[0]).toBe(`Bearer ${TOKEN}`)
  expect(stolen).toEqual([])
  expect(logged.join()).not.toContain(TOKEN)
})

test('T12 the variable of a token is checked, and one that is missing is said', async () => {
  for (const api_key_env of ['ETHEREUM_PRIVATE_KEY', 'OPENAI_API_KEY', 'NODE_API_TOKEN']) {
    await expect(host(remote.url, { api_key_env })).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  }
  expect((await host(remote.url, { api_key_env: 'UNSET_TOKEN' })).notice).toMatch(/UNSET_TOKEN/)
})

test.each(['ftp://a.example', 'file:///etc/passwd', 'a.example', 'https://user:pass@a.example/', 'http://'])(
  '%s is no address of an agent',
  (a2a) => {
    expect(AgentDefinition.safeParse({ name: 'a', description: 'd', price: 0, a2a }).success).toBe(false)
  },
)
