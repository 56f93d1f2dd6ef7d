/** Services that are sold as agents: MCP tools and HTTP operations that attack the seller, and tasks that attack the service (T39). */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { createRuntimeFactory } from '../../src/agents/create-runtime.ts'
import { hostAgent } from '../../src/agents/hosted-agent.ts'
import type { AgentError } from '../../src/agents/runtime.ts'
import { patientFetch } from '../../src/lib/http.ts'
import type { Logger } from '../../src/lib/logger.ts'
import { AgentDefinition } from '../../src/schema/agent.ts'
import { gone } from '../support/slow-agent.ts'
import { soldMcpProgram, startSoldMcp } from '../support/sold-mcp.ts'
import { useSoldServices } from '../support/sold-services.ts'
import { until } from '../support/until.ts'

const KEY = 'pet-key-123456'
const env: Record<string, string | undefined> = { PATH: process.env.PATH, PET_KEY: KEY, HOME_SECRET: 'home-secret-1' }
let logged: string[] = []
const { services, serve } = useSoldServices()

afterEach(() => {
  logged = []
})

async function host(fields: object) {
  const record = (data: object, said: string) => logged.push(JSON.stringify({ ...data, said }))
  const logger: Logger = { debug: record, info: record, warn: record, error: record, child: () => logger }
  const options = { providerKeys: {}, readKey: (name: string) => env[name], dataDir: '.' }
  const definition = AgentDefinition.parse({ name: 'a', description: 'd', price: 1, ...fields })
  return hostAgent('a', definition, await createRuntimeFactory(options, { fetch: patientFetch, logger })(definition))
}
type Agent = Awaited<ReturnType<typeof host>>
const run = (agent: Agent, task: object | string, signal = new AbortController().signal) =>
  agent.run({ input: typeof task === 'string' ? task : JSON.stringify(task), callerId: 'c', history: [], signal })
const failure = (agent: Agent, task: object | string, signal?: AbortSignal): Promise<AgentError> =>
  run(agent, task, signal).then(
    (output) => expect.fail(`gave ${output.slice(0, 200)}`),
    (error: AgentError) => error,
  )
const tool = (name: string, more: object = {}) => host({ mcp_tool: { url: services.mcp.url, tool: name }, ...more })
const operation = (path: string, more: object = {}, fields: object = {}) =>
  host({
    operation: {
      method: 'GET',
      url: `${services.api.url}/v1${path}`,
      key: { in: 'header', name: 'X-Api-Key' },
      ...more,
    },
    ...{ api_key_env: 'PET_KEY', ...fields },
  })

test('a tool does its task over HTTP and on stdio: text, structures and pictures', async () => {
  expect(await run(await tool('forecast'), { city: 'Rome', days: 2 })).toBe('Rome: sun for 2 days')
  expect(await run(await tool('measure'), {})).toBe('{"mm":3}')
  expect(JSON.parse(await run(await tool('paint'), {}))).toEqual({
    content: [{ type: 'image', data: 'aGk=', mimeType: 'image/png' }],
  })
  const program = await host({ mcp_tool: { command: [process.execPath, soldMcpProgram], tool: 'forecast' } })
  expect(await run(program, { city: 'Rome' })).toBe('Rome: sun for 1 days')
})

test('isError is a failed run, and its text stays with the operator', async () => {
  const failed = await failure(await tool('fail'), {})
  expect(failed).toMatchObject({ code: 'AGENT_FAILED', message: 'the tool behind this agent gave no result' })
  expect(failed.message).not.toContain('sk-secret')
})

test('a task that does not fit is refused before the service is asked', async () => {
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const agent = await host({ mcp_tool: { url: services.mcp.url, tool: 'forecast', input_schema: schema } })
  const before = services.mcp.headers.length
  for (const task of ['weather?', '{}', '{"city":1}', '{"city":"a","__proto__":{"admin":true}}']) {
    expect(await failure(agent, task)).toMatchObject({ code: 'AGENT_FAILED' })
  }
  expect(services.mcp.headers.length).toBe(before)
  expect(({} as Record<string, unknown>).admin).toBeUndefined()
})

test('a server that was away is found again', async () => {
  const first = await startSoldMcp()
  const agent = await host({ mcp_tool: { url: first.url, tool: 'forecast' } })
  expect(await run(agent, { city: 'Rome' })).toContain('Rome')
  await first[Symbol.asyncDispose]()
  expect(await failure(agent, { city: 'Rome' })).toMatchObject({ code: 'AGENT_FAILED' })
  await using _again = await startSoldMcp(Number(new URL(first.url).port))
  expect(await run(agent, { city: 'Oslo' })).toContain('Oslo')
})

test('a canceled run ends its call at the server', async () => {
  const stop = new AbortController()
  const canceled = failure(await tool('hang'), {}, stop.signal)
  await until(() => services.mcp.calls.some(([name]) => name === 'hang'))
  stop.abort()
  expect((await canceled).code).toBe('AGENT_CANCELLED')
  await until(() => services.mcp.calls.some(([name]) => name === 'hang ended'))
})

test.each([
  ['is canceled', {}, 'AGENT_CANCELLED'],
  ['takes longer than it may', { timeout_seconds: 2 }, 'AGENT_TIMEOUT'],
])('a run of a server on stdio that %s ends its program', async (what, more, code) => {
  const dir = mkdtempSync(join(tmpdir(), 'stoa-sold-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const file = join(dir, 'pid')
  const agent = await host({ mcp_tool: { command: [process.execPath, soldMcpProgram, file], tool: 'hang' }, ...more })
  const stop = new AbortController()
  const ended = failure(agent, {}, stop.signal)
  const pid = Number(await until(() => existsSync(file) && readFileSync(file, 'utf8')))
  expect(() => process.kill(pid, 0)).not.toThrow()
  if (what === 'is canceled') stop.abort()
  expect((await ended).code).toBe(code)
  await gone(pid)
})

test('a tool that never ends is ended by the limit of the agent', async () => {
  expect(await failure(await tool('hang', { timeout_seconds: 1 }), {})).toMatchObject({ code: 'AGENT_TIMEOUT' })
})

test('T7 answers that are too large are not read to their end', async () => {
  expect(await failure(await tool('shout', { output_bytes_max: 1000 }), { megabytes: 0.01 })).toMatchObject({
    code: 'AGENT_OUTPUT_TOO_LARGE',
  })
  expect(await failure(await tool('shout', { output_bytes_max: 1000 }), { megabytes: 5 })).toMatchObject({
    code: 'AGENT_OUTPUT_TOO_LARGE',
  })
  expect(await failure(await operation('/large'), {})).toMatchObject({ code: 'AGENT_OUTPUT_TOO_LARGE' })
  const slow = await operation('/slow', {}, { timeout_seconds: 1 })
  expect(await failure(slow, {})).toMatchObject({ code: 'AGENT_TIMEOUT' })
})

test('T12 an MCP server that redirects gets no second request, and no other host the token', async () => {
  const seen: unknown[] = []
  const thief = await serve((request, response) => {
    seen.push(request.headers)
    response.writeHead(404).end()
  })
  for (const status of [302, 307, 308]) {
    const url = await serve((_request, response) => response.writeHead(status, { location: `${thief}/mcp` }).end())
    const agent = await host({ mcp_tool: { url: `${url}/mcp`, tool: 'x' }, api_key_env: 'PET_KEY' })
    expect(await failure(agent, {})).toMatchObject({ code: 'AGENT_FAILED' })
  }
  expect(seen).toEqual([])
  expect(logged.join()).not.toContain(KEY)
})

test('T12 an operation that redirects to the metadata address is a failed run', async () => {
  const failed = await failure(await operation('/away'), {})
  expect(failed).toMatchObject({ code: 'AGENT_FAILED', message: expect.stringContaining('HTTP 302') })
})

test.each(['http://169.254.169.254/', 'http://0xa9fea9fe/', 'http://[::ffff:a9fe:a9fe]/'])(
  'T12 an agent whose entry names %s asks nobody',
  async (url) => {
    const asked = await failure(await host({ operation: { method: 'GET', url } }), {})
    const called = await failure(await host({ mcp_tool: { url, tool: 'x' } }), {})
    for (const { code } of [asked, called]) expect(code).toBe('AGENT_FAILED')
    expect(logged.join()).toContain('ADDRESS_REFUSED')
  },
)

test('T12 a task reaches no other path, header, host or query of the service', async () => {
  const agent = await operation('/names/{name}', {
    parameters: [
      { name: 'name', in: 'path' },
      { name: 'X-Trace', in: 'header' },
      { name: 'q', in: 'query' },
    ],
  })
  const before = services.api.asked.length
  const refused = [
    ...['../admin', '..', '.', '%2e%2e%2fadmin', '..%2fadmin', 'a/../../admin', '\\..\\admin', 'a\r\nHost: x'].map(
      (name) => ({ name }),
    ),
    { name: 'a', 'X-Trace': 'a\r\nX-Api-Key: mine' },
    { name: 'a', host: 'evil.example' },
    { name: 'a', 'X-Api-Key': 'mine' },
    { name: 'a', q: { admin: 'true' } },
  ]
  for (const task of refused) expect(await failure(agent, task)).toMatchObject({ code: 'AGENT_FAILED' })
  expect(services.api.asked.length).toBe(before)
  for (const name of ['@evil.example', 'x?admin=1#y', '..;x', 'ü &=+']) {
    await run(agent, { name, q: 'a&admin=true#x', 'X-Trace': 'ok' })
    const { url, headers } = services.api.asked.at(-1)!
    expect(url).toBe(`/v1/names/${encodeURIComponent(name)}?q=a%26admin%3Dtrue%23x`)
    expect(headers).toMatchObject({ host: new URL(services.api.url).host, 'x-trace': 'ok', 'x-api-key': KEY })
  }
})

test('T21 the key of a service goes to the service, and into no log, error or result', async () => {
  const inQuery = await host({
    operation: { method: 'GET', url: `${services.api.url}/none`, key: { in: 'query', name: 'key' } },
    api_key_env: 'PET_KEY',
  })
  const failed = await failure(inQuery, {})
  expect(services.api.asked.at(-1)!.url).toBe(`/none?key=${KEY}`)
  const gone = await host({
    operation: { method: 'GET', url: 'http://127.0.0.1:1/', key: { in: 'query', name: 'key' } },
    api_key_env: 'PET_KEY',
  })
  const unreached = await failure(gone, {})
  expect(failed.message + unreached.message + logged.join()).not.toContain(KEY)
  expect(logged).toHaveLength(2)
})

test('T21 a service that repeats its address or its headers gives no buyer the key of the seller', async () => {
  const url = await serve(({ url, headers }, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ next: `${url}&page=2`, headers }))
  })
  const entries = [
    { http: url },
    ...(['header', 'query', 'basic'] as const).map((place) => ({
      operation: { method: 'GET', url, key: place === 'basic' ? { in: place } : { in: place, name: 'k' } },
    })),
  ]
  for (const entry of entries) {
    const output = await run(await host({ ...entry, api_key_env: 'PET_KEY' }), {})
    expect(output).toContain('[secret]')
    expect(output).not.toContain(KEY)
    expect(output).not.toContain(Buffer.from(KEY).toString('base64'))
  }
})

test('T12 a variable of the node or of a provider is sent to no service', async () => {
  for (const api_key_env of ['ETHEREUM_PRIVATE_KEY', 'NODE_API_TOKEN', 'OPENAI_API_KEY']) {
    await expect(tool('forecast', { api_key_env })).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  }
  const lacking = await tool('forecast', { api_key_env: 'UNSET_TOKEN' })
  expect(lacking).toMatchObject({ lacks: 'key', notice: expect.stringContaining('UNSET_TOKEN') })
  await expect(host({ mcp_tool: { command: ['node'], tool: 'x' }, api_key_env: 'PET_KEY' })).rejects.toMatchObject({
    code: 'AGENT_NOT_RUNNABLE',
  })
})

test('T12 an answer that is no MCP, no JSON or cut short is a failed run in words for a buyer', async () => {
  const answers: RequestListener[] = [
    (_request, response) => response.end('<html>'),
    (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{"jsonrpc":"2.0"'),
    (_request, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: {}\n\n'),
    (request) => request.socket.destroy(),
  ]
  for (const answer of answers) {
    const agent = await host({ mcp_tool: { url: await serve(answer), tool: 'x' }, timeout_seconds: 5 })
    expect((await failure(agent, {})).message).toMatch(/^the tool behind this agent gave no result$|did not finish/)
  }
})
