/** MCP servers that want to hold the event loop of the node that uses them (T32, T39). */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { createRuntimeFactory } from '../../src/agents/create-runtime.ts'
import { hostAgent } from '../../src/agents/hosted-agent.ts'
import { openToolbox } from '../../src/agents/toolbox.ts'
import { patientFetch } from '../../src/lib/http.ts'
import type { Logger } from '../../src/lib/logger.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { AgentDefinition } from '../../src/schema/agent.ts'
import { useSoldServices } from '../support/sold-services.ts'

const { serve } = useSoldServices()
const readEnv = (name: string) => (name === 'PATH' ? process.env.PATH : undefined)

/** A server that answers a call of a tool by `hostile`. @param onMessage sees the messages of the client */
function mcpServer(hostile: (response: ServerResponse, id: unknown) => void, onMessage = (_method: string) => {}) {
  const answers: Record<string, unknown> = {
    initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } },
    'tools/list': { tools: [{ name: 'x', inputSchema: { type: 'object' } }] },
  }
  const listener: RequestListener = async (request: IncomingMessage, response) => {
    onMessage(request.method!)
    if (request.method !== 'POST') return request.method === 'GET' ? reopened(response) : void response.end()
    const { id, method = 'an answer' } = (await json(request)) as { id: unknown; method?: string }
    onMessage(method)
    if (method === 'tools/call') return hostile(response, id)
    if (id === undefined || method === 'an answer') return void response.writeHead(202).end()
    const result = answers[method]
    const said = result === undefined ? { error: { code: -32601, message: 'unknown' } } : { result }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...said }))
  }
  return serve(listener)
}

/** A stream of the server that has ended already, to be opened again at once. */
function reopened(response: ServerResponse): void {
  const note = { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x' } }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(`retry: 0\nid: 1\ndata: ${JSON.stringify(note)}\n\n`)
}

function flood(response: ServerResponse, event: (no: number) => string): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  let no = 0
  const send = () => {
    if (response.destroyed) return
    let text = ''
    for (let i = 0; i < 500; i++) text += event(++no)
    if (response.write(text)) setImmediate(send)
    else response.once('drain', send)
  }
  send()
}

const answer = (response: ServerResponse, id: unknown, result: string) =>
  void response
    .setHeader('content-type', 'application/json')
    .end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`)
const ping = (no: number) => `data: ${JSON.stringify({ jsonrpc: '2.0', id: no, method: 'ping' })}\n\n`

async function runOf(mcp_tool: object): Promise<{ outcome: string; logged: string }> {
  const logged: string[] = []
  const record = (data: object) => logged.push(JSON.stringify(data))
  const logger: Logger = { debug: record, info: record, warn: record, error: record, child: () => logger }
  const definition = AgentDefinition.parse({ name: 'a', description: 'd', price: 1, mcp_tool })
  const options = { providerKeys: {}, readKey: readEnv, dataDir: '.' }
  const agent = hostAgent(
    'a',
    definition,
    await createRuntimeFactory(options, { fetch: patientFetch, logger })(definition),
  )
  const { signal } = new AbortController()
  const outcome = await agent.run({ input: '{}', callerId: 'c', history: [], signal }).then(
    () => 'a result',
    (error: Error) => error.message,
  )
  return { outcome, logged: logged.join('\n') }
}

const many = (text: string, count: number) => text.repeat(count)
test.each<[string, (response: ServerResponse, id: unknown) => void, string]>([
  [
    'nests its answer without end',
    (response, id) =>
      answer(response, id, `{"content":[],"structuredContent":{"a":${many('[', 1e6)}${many(']', 1e6)}}}`),
    'the answer is nested deeper than 64 levels',
  ],
  [
    'answers with a hundred thousand texts',
    (response, id) => answer(response, id, `{"content":[${many('{"type":"text","text":""},', 1e5)}{}]}`),
    'the answer has more than 100000 values',
  ],
  [
    'sends events that are no messages',
    (response) => flood(response, () => 'data: 1\n\n'),
    'the answers have more than 20000 lines',
  ],
  ['asks without end', (response) => flood(response, ping), 'the server wants more than 2000 requests'],
  ['has its stream opened again and again', () => {}, 'the server wants more than 2000 requests'],
])('T32 a server that %s is left, and the operator reads why', async (_, hostile, reason) => {
  const url = await mcpServer(hostile)
  const { outcome, logged } = await runOf({ url, tool: 'x' })
  expect(outcome).toBe('the tool behind this agent gave no result')
  expect(logged).toContain(reason)
})

test('T32 a program that asks without end, or nests without end, is ended', async () => {
  const start = `process.stdin.once('data', () => {
    process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id: 0, result: { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'x', version: '1' } } }) + '\\n')
    setInterval(() => { for (let i = 0; i < 500; i++) process.stdout.write(LINE + '\\n') }, 1)
  })`
  for (const line of [`'{"jsonrpc":"2.0","id":1,"method":"ping"}'`, `'['.repeat(5000)`]) {
    const command = [process.execPath, '-e', start.replace('LINE', line)]
    expect((await runOf({ command, tool: 'x' })).outcome).toBe('the tool behind this agent gave no result')
  }
})

test('T32 the tools of a model answer few of the questions of a server that asks without end', async () => {
  const seen: string[] = []
  const url = await mcpServer(
    (response) => flood(response, ping),
    (method) => seen.push(method),
  )
  const deps = { fetch: patientFetch, readEnv, logger: silentLogger }
  const toolbox = await openToolbox([{ url, token: undefined }], deps, AbortSignal.timeout(60_000))
  const stop = new AbortController()
  const called = toolbox.tools.x!.execute!({}, { toolCallId: '1', messages: [], abortSignal: stop.signal } as never)
  const answered = () => seen.filter((method) => method === 'an answer').length
  await expect.poll(answered, { timeout: 60_000 }).toBeGreaterThan(0)
  stop.abort()
  await expect(Promise.resolve(called)).rejects.toThrow()
  await toolbox.close()
  expect(answered()).toBeLessThan(2_001)
})
