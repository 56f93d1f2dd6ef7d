/** The HTTP API through real sockets: what `inject` cannot show. */
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test, vi } from 'vitest'
import type { ExecuteRequest } from '../../src/buying/execute.ts'
import { createApiClient } from '../../src/http/client/client.ts'
import { type Api, type ApiOptions, createApi } from '../../src/http/server/app.ts'
import { patientFetch } from '../../src/lib/http.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import { type FakeParts, fakeDeps, localId, loopbackOptions, remoteId, resultFixture } from '../support/fake-api.ts'
import { until } from '../support/until.ts'

const started: Api[] = []
afterEach(async () => {
  await Promise.all(started.splice(0).map((api) => api.stop()))
})

async function start(changes: Partial<FakeParts> = {}, options: Partial<ApiOptions> = {}): Promise<Api> {
  const api = createApi({ ...loopbackOptions, ...options }, fakeDeps(changes))
  await api.start()
  started.push(api)
  return api
}

type Sent = { method?: string; headers?: Record<string, string>; body?: string; agent?: Agent }
/** A request with any headers, Host and Origin included, which `fetch` would not send. */
async function send(api: Api, path: string, { method = 'GET', headers = {}, body, agent }: Sent = {}) {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  request(api.url + path, { method, headers, ...(agent && { agent }) }, resolve)
    .on('error', reject)
    .end(body)
  const response = await promise
  const content = await text(response)
  const isJson = response.headers['content-type']?.includes('json') === true
  return {
    status: response.statusCode,
    headers: response.headers,
    json: isJson ? JSON.parse(content) : undefined,
    content,
  }
}

/** Bytes as they are, and all that comes back until the connection closes. */
async function sendBytes(api: Api, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(api.url).port), '127.0.0.1')
  socket.end(bytes)
  return text(socket)
}

const json = { 'content-type': 'application/json' }
const task = JSON.stringify({ agent_id: remoteId, task: 'go' })
const execution = { method: 'POST', headers: json, body: task }

/** An `execute` that waits, to be looked at from outside. */
function waitingExecute() {
  const calls: ExecuteRequest[] = []
  const { promise, resolve } = Promise.withResolvers<ExecutionResult>()
  function execute(call: ExecuteRequest): Promise<ExecutionResult> {
    calls.push(call)
    const aborted = Promise.withResolvers<never>()
    call.signal.addEventListener('abort', () => aborted.reject(call.signal.reason))
    return Promise.race([promise, aborted.promise])
  }
  return { calls, execute, finish: () => resolve(resultFixture()) }
}

test('a method that no operation has is refused with those of the path, whatever HTTP calls it', async () => {
  const api = await start()
  for (const method of ['TRACE', 'PROPFIND', 'SEARCH', 'QUERY']) {
    const { json: problem, headers } = await send(api, '/api/agents', { method })
    expect([method, problem.code, headers.allow]).toEqual([method, 'METHOD_NOT_ALLOWED', 'GET, POST, HEAD, OPTIONS'])
  }
})

test('T11 a page whose name was rebound to this machine reads and does nothing', async () => {
  const execute = vi.fn(async () => resultFixture())
  const balance = vi.fn(fakeDeps().node.balance)
  const api = await start({ execute, balance })
  const { port } = new URL(api.url)
  for (const host of ['evil.example', `evil.example:${port}`, `localhost.evil.example:${port}`]) {
    const headers = { ...json, host, origin: `http://${host}` }
    expect((await send(api, '/execute', { ...execution, headers })).json).toMatchObject({
      status: 403,
      code: 'HOST_NOT_ALLOWED',
    })
    for (const path of ['/wallet/balance', '/agents', '/health', '/openapi.json', '/nope']) {
      const answer = await send(api, path, { headers: { host } })
      expect(answer.json).toMatchObject({ status: 403, code: 'HOST_NOT_ALLOWED' })
      expect(answer.headers).not.toHaveProperty('access-control-allow-origin')
    }
  }
  expect(execute).not.toHaveBeenCalled()
  expect(balance).not.toHaveBeenCalled()
})

test('T11 a page of a foreign origin spends, registers and reads nothing private', async () => {
  const execute = vi.fn(async () => resultFixture())
  const registerAgent = vi.fn(fakeDeps().ownAgents.register)
  const balance = vi.fn(fakeDeps().node.balance)
  const api = await start({ execute, registerAgent, balance })
  for (const from of [{ origin: 'https://evil.example' }, { origin: 'null' }, { 'sec-fetch-site': 'cross-site' }]) {
    for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
      const headers = { ...from, 'content-type': type }
      for (const path of ['/execute', '/api/execute', `/agents/${remoteId}/execute`, '/agents']) {
        const answer = await send(api, path, { method: 'POST', headers, body: task })
        expect(answer.json).toMatchObject({ status: 403, code: 'ORIGIN_NOT_ALLOWED' })
        expect(answer.headers).not.toHaveProperty('access-control-allow-origin')
      }
    }
    expect((await send(api, '/wallet/balance', { headers: from as Record<string, string> })).status).toBe(403)
  }
  expect(execute).not.toHaveBeenCalled()
  expect(registerAgent).not.toHaveBeenCalled()
  expect(balance).not.toHaveBeenCalled()
})

test('D16 answers public reads to pages of any origin', async () => {
  const api = await start()
  for (const path of [
    '/health',
    '/agents',
    '/api/agents/local',
    '/agents/discover',
    `/agents/${localId}`,
    '/openapi.json',
  ]) {
    const { status, headers } = await send(api, path, { headers: { origin: 'https://app.example' } })
    expect(status).toBe(200)
    expect(headers['access-control-allow-origin']).toBe('*')
  }
})

test('D16 answers the preflight of a page that may, and refuses it to one that may not', async () => {
  const api = await start({}, { corsOrigins: ['https://app.example.org'] })
  const preflight = (origin: string, method: string, path = '/execute') =>
    send(api, path, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': method,
        'access-control-request-headers': 'content-type',
        'access-control-request-private-network': 'true',
      },
    })
  for (const origin of ['https://app.example.org', 'http://localhost:3000']) {
    const { status, headers } = await preflight(origin, 'POST')
    expect(status).toBe(204)
    expect(headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'POST, OPTIONS',
      'access-control-allow-headers': 'authorization, content-type, idempotency-key, last-event-id',
      'access-control-allow-private-network': 'true',
      vary: 'Origin',
    })
  }
  for (const origin of ['https://evil.example', 'null']) {
    for (const path of ['/execute', '/agents', '/api/agents']) {
      const { status, headers } = await preflight(origin, 'POST', path)
      expect(status).toBe(403)
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  }
  expect((await preflight('https://evil.example', 'GET', '/agents')).headers['access-control-allow-origin']).toBe('*')
  expect((await preflight('http://localhost:3000', 'PATCH')).status).toBe(405)
})

test('T11 takes one host only: none, two or one in the target are refused', async () => {
  const api = await start()
  const status = async (bytes: string) => (await sendBytes(api, bytes)).split('\r\n')[0]
  expect(await status('GET /status HTTP/1.0\r\n\r\n')).toMatch(/ 400 /)
  expect(await status('GET /status HTTP/1.1\r\nConnection: close\r\n\r\n')).toMatch(/ 400 /)
  expect(
    await status('GET http://evil.example/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'),
  ).toMatch(/ 400 /)
  expect(
    await status('GET /status HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\nConnection: close\r\n\r\n'),
  ).toMatch(/ 40[03] /)
  expect(await status('GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')).toMatch(/ 200 /)
})

test.each([
  ['\x16\x03\x01\x02\x00\x01\x00', 400, 'INVALID_REQUEST'],
  ['GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n', 400, 'INVALID_REQUEST'],
  [`GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431, 'HEADERS_TOO_LARGE'],
])('D15 answers bytes that are no request with a problem: %.20j', async (bytes, status, code) => {
  const answer = await sendBytes(await start(), bytes)
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  expect(answer).toContain('Content-Type: application/problem+json')
  expect(JSON.parse(answer.split('\r\n\r\n')[1] ?? '')).toMatchObject({ status, code })
})

test('D16 bound elsewhere, everything but /health needs the token, and the client sends it', async () => {
  const api = await start({}, { host: '0.0.0.0' })
  expect(api.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  expect((await send(api, '/health')).status).toBe(200)
  for (const path of ['/agents', '/status', '/nope', '/docs', '/openapi.json']) {
    const { json, headers } = await send(api, path)
    expect(json).toMatchObject({ status: 401, code: 'TOKEN_REQUIRED' })
    expect(headers['www-authenticate']).toMatch(/^Bearer /)
  }
  const wrong = await send(api, '/execute', { ...execution, headers: { ...json, authorization: 'Bearer wrong' } })
  expect(wrong.json).toMatchObject({ status: 401, code: 'TOKEN_WRONG' })
  const client = createApiClient({ baseUrl: api.url, token: loopbackOptions.token }, { fetch })
  expect(await client.agents()).toHaveLength(2)
})

test('D16 says so in the log when the API is open to the network, and asks for a token otherwise', async () => {
  const warn = vi.fn()
  const { logger } = fakeDeps()
  await start(
    { logger: { ...logger, child: () => ({ ...logger, warn }) } },
    { host: '0.0.0.0', insecureOpen: true, token: '' },
  )
  expect(warn).toHaveBeenCalledExactlyOnceWith(expect.anything(), expect.stringMatching(/open/))
  await expect(start({}, { host: '0.0.0.0', token: '' })).rejects.toMatchObject({ code: 'API_TOKEN_MISSING' })
})

test('T16 an error says what to stop, or how to change the port, when the port is in use', async () => {
  const api = await start()
  const port = Number(new URL(api.url).port)
  await expect(start({}, { port })).rejects.toMatchObject({
    code: 'API_PORT_IN_USE',
    message: expect.stringMatching(new RegExp(`port ${port} .* --api-port`)),
  })
  expect((await send(api, '/health')).status).toBe(200)
})

test('says how to move when the host is none of this machine', async () => {
  const elsewhere = start({}, { host: '203.0.113.1' })
  await expect(elsewhere).rejects.toMatchObject({
    code: 'API_HOST_UNAVAILABLE',
    message: expect.stringMatching(/--api-host/),
  })
})

test('one connection carries many requests, and an idle connection does not delay the stop', async () => {
  const api = await start()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const sockets = new Set<unknown>()
  agent.on('free', (socket) => sockets.add(socket))
  for (let index = 0; index < 5; index++) expect((await send(api, '/health', { agent })).status).toBe(200)
  expect(sockets.size).toBe(1)
  const from = performance.now()
  await api.stop()
  expect(performance.now() - from).toBeLessThan(2_500)
  agent.destroy()
})

test('a refused body does not stay on the connection', async () => {
  const api = await start()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const refused = {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: 'GET /status HTTP/1.1\r\n\r\n'.repeat(1000),
    agent,
  }
  for (let index = 0; index < 3; index++) {
    expect((await send(api, '/execute', refused)).status).toBe(415)
    expect((await send(api, '/health', { agent })).content).toBe('{"status":"ok"}')
  }
  agent.destroy()
})

test('a client that leaves aborts its request', async () => {
  const { calls, execute } = waitingExecute()
  const error = vi.fn()
  const { logger } = fakeDeps()
  const api = await start({ execute, logger: { ...logger, child: () => ({ ...logger, error }) } })
  const leaving = new AbortController()
  const client = createApiClient({ baseUrl: api.url }, { fetch })
  const reason = new Error('Ctrl-C')
  const call = client.execute({ agentId: remoteId, input: 'go' }, { signal: leaving.signal })
  const signal = await until(() => calls[0]?.signal)
  expect(signal.aborted).toBe(false)
  leaving.abort(reason)
  await expect(call).rejects.toBe(reason)
  await until(() => signal.aborted)
  expect((await send(api, '/health')).status).toBe(200)
  expect(error).not.toHaveBeenCalled()
})

test('a client that stays is never aborted', async () => {
  const { calls, execute, finish } = waitingExecute()
  const api = await start({ execute })
  const agent = new Agent({ keepAlive: true })
  const answer = send(api, '/execute', { ...execution, agent })
  const signal = await until(() => calls[0]?.signal)
  finish()
  expect((await answer).status).toBe(200)
  agent.destroy()
  await api.stop()
  expect(signal.aborted).toBe(false)
})

test('stopping lets work that ends soon end, and closes its connection', async () => {
  const { calls, execute, finish } = waitingExecute()
  const api = await start({ execute })
  const agent = new Agent({ keepAlive: true })
  const answer = send(api, '/execute', { ...execution, agent })
  const signal = await until(() => calls[0]?.signal)
  const stopped = api.stop()
  finish()
  const { status, headers, json } = await answer
  expect({ status, connection: headers.connection, json }).toEqual({
    status: 200,
    connection: 'close',
    json: resultFixture(),
  })
  await stopped
  expect(signal.aborted).toBe(false)
  agent.destroy()
})

test('stopping aborts work that does not end, and its client gets an error', async () => {
  const { calls, execute } = waitingExecute()
  const api = await start({ execute })
  const answer = send(api, '/execute', execution)
  await until(() => calls.length === 1)
  const from = performance.now()
  await api.stop()
  expect(performance.now() - from).toBeLessThan(10_000)
  expect((await answer).json).toMatchObject({ status: 503, code: 'STOPPING' })
})

test('stopping does not wait for work that ignores its signal', async () => {
  const never = Promise.withResolvers<ExecutionResult>()
  const execute = vi.fn(() => never.promise)
  const api = await start({ execute })
  const answer = send(api, '/execute', execution)
  answer.catch(() => {})
  await until(() => execute.mock.calls.length === 1)
  const from = performance.now()
  await api.stop()
  expect(performance.now() - from).toBeLessThan(10_000)
  await expect(answer).rejects.toMatchObject({ code: 'ECONNRESET' })
})

test('the client reaches the node through a fetch that waits as long as an agent may run', async () => {
  const api = await start()
  const client = createApiClient({ baseUrl: api.url }, { fetch: patientFetch })
  expect(await client.execute({ agentId: remoteId, input: 'go' })).toMatchObject({ output: 'go' })
  await api.stop()
  await expect(client.health()).rejects.toMatchObject({
    code: 'API_UNREACHABLE',
    message: expect.stringMatching(/stoa start/),
  })
})
