/** Language-model agents that use the tools of MCP servers: a fake model, real servers. */
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createRuntimeFactory } from '../../src/agents/create-runtime.ts'
import { createRegistry } from '../../src/agents/registry.ts'
import type { AgentError } from '../../src/agents/runtime.ts'
import type { Logger } from '../../src/lib/logger.ts'
import { AgentDefinition } from '../../src/schema/agent.ts'
import type { ToolServer } from '../../src/schema/agent-service.ts'
import { type FakeLlm, type LlmBehavior, startFakeLlm } from '../support/fake-llm.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const script = fileURLToPath(new URL('../support/mcp-server.ts', import.meta.url))
let llm: FakeLlm
let node: TestNode
let home: string
let logged: string[]

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-tools-'))
  node = await startTestNode()
})
afterAll(async () => {
  await node?.stop()
  await rm(home, { recursive: true, force: true })
})
beforeEach(async () => {
  llm = await startFakeLlm()
  logged = []
})
afterEach(() => llm[Symbol.asyncDispose]())

/** The model asks for a tool. */
function wants(name: string, args: object = {}): LlmBehavior {
  const call = { id: 'call_1', type: 'function', function: { name, arguments: JSON.stringify(args) } }
  const message = { role: 'assistant', content: null, tool_calls: [call] }
  const choices = [{ index: 0, message, finish_reason: 'tool_calls' }]
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  return {
    kind: 'raw',
    body: JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage }),
  }
}
const says = (text: string): LlmBehavior => ({ kind: 'answer', text })

const env: Record<string, string> = { ...(process.env as Record<string, string>), TOOL_TOKEN: 'tool-token-123456' }
async function host(mcp: object[], fields: object = {}) {
  const record = (data: object, said: string) => logged.push(JSON.stringify({ ...data, said }))
  const logger: Logger = { debug: record, info: record, warn: record, error: record, child: () => logger }
  const createRuntime = createRuntimeFactory(
    { providerKeys: { openai: 'sk-test-0123456789abcdef' }, readKey: (name) => env[name], dataDir: '.' },
    {
      // The model is the fake one; tool servers are asked as they are.
      fetch: (input, init) => (String(input).includes('api.openai.com') ? llm.fetch(input, init) : fetch(input, init)),
      logger,
    },
  )
  const registry = createRegistry({ sellerId: '12D3KooW', agentsMax: 1 }, { createRuntime })
  const definition = { name: 'a', description: 'Use tools.', price: 1, model: 'openai/gpt-5', mcp, ...fields }
  return registry.register(AgentDefinition.parse(definition))
}
const call = (signal = new AbortController().signal) => ({ input: 'a task', callerId: 'c', history: [], signal })
const failure = async (agent: Awaited<ReturnType<typeof host>>, signal?: AbortSignal): Promise<AgentError> =>
  agent.run(call(signal)).then(
    (output) => expect.fail(`gave ${output}`),
    (error: AgentError) => error,
  )
const stdio = (...args: string[]) => ({ command: [process.execPath, script, ...args] })
const lastMessages = () => JSON.stringify(llm.requests.at(-1)?.body.messages)

test('a model uses a program’s tool and answers with what it gave', async () => {
  llm.behave(wants('add', { a: 19, b: 23 }), says('It is 42.'))
  expect(await (await host([stdio()])).run(call())).toBe('It is 42.')
  expect(llm.requests.length).toBe(2)
  expect(lastMessages()).toContain('42')
})

test('a model uses the tools of a server over HTTP: the market itself', async () => {
  llm.behave(wants('budget_status'), says('Five left.'))
  expect(await (await host([{ url: `${node.url}/mcp` }])).run(call())).toBe('Five left.')
  expect(lastMessages()).toContain('per_day')
})

test('only the tools the operator named are offered', async () => {
  llm.behave(says('fine'))
  await (
    await host([
      { ...stdio(), tools: ['add', 'nosuch'] },
      { url: `${node.url}/mcp`, tools: ['budget_status'] },
    ])
  ).run(call())
  const { tools } = llm.requests[0]!.body as { tools?: { function: { name: string } }[] }
  expect(tools?.map((one) => one.function.name)).toEqual(['add', 'budget_status'])
  expect(logged.join()).toContain('nosuch')
})

test('a server ends with the task it was started for, whatever becomes of it', async () => {
  const journal = join(home, 'journal')
  const agent = await host([stdio(journal)])
  llm.behave(says('done'))
  await agent.run(call())
  llm.behave({ kind: 'status', status: 401 })
  await failure(agent)
  const stop = new AbortController()
  llm.behave(wants('hang'))
  const canceled = failure(agent, stop.signal)
  await until(() => llm.requests.length >= 3)
  stop.abort()
  expect((await canceled).code).toBe('AGENT_CANCELLED')
  const pids = (await readFile(journal, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => Number(line.split(' ')[1]))
  expect(pids.length).toBe(3)
  await until(() => pids.every((pid) => !isAlive(pid)))
})

test('a model that never stops asking for tools is stopped', async () => {
  llm.behave(wants('add', { a: 1, b: 1 }))
  expect(await failure(await host([stdio()]))).toMatchObject({ code: 'AGENT_FAILED' })
  expect(llm.requests.length).toBe(12)
})

test('a tool that says megabytes is cut before the model sees it', async () => {
  llm.behave(wants('shout'), says('loud'))
  expect(await (await host([stdio()])).run(call())).toBe('loud')
  expect(lastMessages().length).toBeLessThan(600_000)
  expect(lastMessages()).toContain('cut: ')
})

test('T21 a server sees no secret of this node', async () => {
  env.ETHEREUM_PRIVATE_KEY = '0xsecret'
  llm.behave(wants('whoami'), says('ok'))
  await (await host([stdio()])).run(call())
  const seen = lastMessages()
  expect(seen).toContain('PATH')
  for (const name of ['TOOL_TOKEN', 'ETHEREUM_PRIVATE_KEY', 'OPENAI_API_KEY']) expect(seen).not.toContain(name)
})

test('T12 the token of a server goes to its URL, and not along with a redirect', async () => {
  const seen: (string | undefined)[] = []
  const thief = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.end('{}')
  })
  await once(thief.listen(0, '127.0.0.1'), 'listening')
  const elsewhere = `http://127.0.0.1:${(thief.address() as AddressInfo).port}/`
  const tokens: (string | undefined)[] = []
  const server = createServer((request, response) => {
    tokens.push(request.headers.authorization)
    response.writeHead(307, { location: elsewhere }).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
    const failed = await failure(await host([{ url, token_env: 'TOOL_TOKEN' }]))
    expect(failed.message).toBe('a tool server of this agent cannot be reached; try again later')
    expect(tokens[0]).toBe('Bearer tool-token-123456')
    expect(seen).toEqual([])
    expect(logged.join()).not.toContain('tool-token')
  } finally {
    thief.close()
    server.close()
  }
})

test.each([
  ['a program that is not there', { command: ['/no/such/program'] }, 'AGENT_NOT_RUNNABLE'],
  ['a program that ends at once', { command: [process.execPath, '-e', '0'] }],
  ['a program that speaks something else', { command: ['yes'] }],
  ['an address where nobody is', { url: 'http://127.0.0.1:1/mcp' }],
])('%s fails the task in words a buyer may read, and no model is asked', async (_, server, code = 'AGENT_FAILED') => {
  const failed = await failure(await host([server as ToolServer]))
  expect(failed).toMatchObject({ code, message: expect.stringContaining('tool server') })
  expect(failed.message).not.toContain('/no/such')
  expect(llm.requests).toEqual([])
})

test('T12 a token variable that holds the node’s own secrets, or a provider’s key, is refused', async () => {
  for (const token_env of ['ETHEREUM_PRIVATE_KEY', 'NODE_API_TOKEN', 'OPENAI_API_KEY']) {
    await expect(host([{ url: 'https://tools.example/mcp', token_env }])).rejects.toMatchObject({
      code: 'AGENT_NOT_RUNNABLE',
    })
  }
  const lacking = await host([{ url: 'https://tools.example/mcp', token_env: 'UNSET_TOKEN' }])
  expect(lacking.notice).toMatch(/UNSET_TOKEN/)
})

test('what uses no tools refuses to have some', async () => {
  await expect(host([stdio()], { model: 'builtin/echo' })).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  expect(() =>
    AgentDefinition.parse({ name: 'a', description: 'd', price: 0, command: ['x'], mcp: [stdio()] }),
  ).toThrow()
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** A server that answers `initialize` and lists its tools as the test wants it to. */
async function serverThat(list: (page: number) => object): Promise<{ url: string; pages(): number; stop(): void }> {
  let pages = 0
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end()
    const { id, method } = (await json(request)) as { id?: unknown; method: string }
    if (id === undefined) return response.writeHead(202).end()
    const initialized = {
      ...{ protocolVersion: '2025-06-18', capabilities: { tools: {} } },
      serverInfo: { name: 'x', version: '1' },
    }
    const result = method === 'initialize' ? initialized : list(++pages)
    return response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const stop = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, pages: () => pages, stop }
}

test('T7 a server that offers tools page after page, without end, is read to a limit', async () => {
  const server = await serverThat((page) => ({
    tools: [{ name: `tool_${page}`, inputSchema: { type: 'object', properties: {} } }],
    nextCursor: `page-${page}`,
  }))
  try {
    llm.behave(says('done'))
    expect(await (await host([{ url: server.url }])).run(call())).toBe('done')
    expect(server.pages()).toBeLessThan(100)
  } finally {
    server.stop()
  }
})

test('T7 a server that never lists its tools ends with the task', async () => {
  const journal = join(home, 'silent-journal')
  const script = `
    const { appendFileSync } = require('node:fs')
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line)
      if (method === 'tools/list') appendFileSync(${JSON.stringify(journal)}, String(process.pid))
      if (method !== 'initialize') return
      const result = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } }
      console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
    setInterval(() => {}, 1000)`
  const stop = new AbortController()
  const canceled = failure(await host([{ command: [process.execPath, '-e', script] }]), stop.signal)
  const pid = await until(async () => Number(await readFile(journal, 'utf8').catch(() => '')))
  stop.abort()
  expect((await canceled).code).toBe('AGENT_CANCELLED')
  await until(() => !isAlive(pid))
})
