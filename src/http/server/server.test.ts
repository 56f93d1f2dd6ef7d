import { createHash } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import {
  fakeDeps,
  fakeServer,
  listingFixture,
  localId,
  remoteId,
  resultFixture,
} from '../../../test/support/fake-api.ts'
import type { ExecuteRequest } from '../../buying/execute.ts'
import { CodedError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import { silentLogger } from '../../lib/logger.ts'
import { OPERATOR } from '../../schema/caller.ts'
import { BODY_BYTES_MAX, TASK_BYTES_MAX } from '../../schema/limits.ts'
import { apiOperations } from '../api/operations.ts'

const post = (url: string, payload: unknown, headers: Record<string, string> = {}) => ({
  method: 'POST' as const,
  url,
  payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
  headers: { 'content-type': 'application/json', ...headers },
})
const agent = { name: 'Summary', description: 'Summarizes any text.', price: 0.01 }

test.each(['', '/api'])('D13 answers every read under %j', async (prefix) => {
  const { app } = fakeServer()
  const get = async (path: string) => (await app.inject(prefix + path)).json()
  expect(await get('/health')).toEqual({ status: 'ok' })
  expect((await get('/agents')).map(({ id }: { id: string }) => id)).toEqual([localId, remoteId])
  expect((await get('/agents/local')).map(({ id }: { id: string }) => id)).toEqual([localId])
  expect((await get('/agents/discover')).map(({ id }: { id: string }) => id)).toEqual([remoteId])
  expect(await get(`/agents/${remoteId}`)).toMatchObject({ id: remoteId, price: 0.01, price_atomic: '10000' })
  expect(await get('/status')).toMatchObject({ agents: { local: 1, known: 2 } })
  expect(await get('/peers')).toMatchObject([{ direction: 'outbound' }])
  expect(await get('/wallet/balance')).toMatchObject({ symbol: 'USDC', balance: '12.5' })
  expect(await get('/openapi.json')).toMatchObject({ openapi: '3.1.0' })
})

test('the body of /health is what the specification has, to the letter', async () => {
  expect((await fakeServer().app.inject('/health')).body).toBe('{"status":"ok"}')
})

test.each(['', '/api'])('D14 POST %s/agents answers 201 and where the agent is', async (prefix) => {
  const registerAgent = vi.fn(async () => listingFixture({ id: localId, local: true }))
  const response = await fakeServer({ registerAgent }).app.inject(post(`${prefix}/agents`, agent))
  expect(response.statusCode).toBe(201)
  expect(response.headers.location).toBe(`${prefix}/agents/${localId}`)
  expect(response.json()).toMatchObject({ id: localId, local: true })
  expect(registerAgent).toHaveBeenCalledExactlyOnceWith({ ...agent, price: 10_000n })
})

test('D17 takes task and input in both forms of execute', async () => {
  const execute = vi.fn(async (_: ExecuteRequest) => resultFixture())
  const { app } = fakeServer({ execute })
  for (const url of [`/agents/${remoteId}/execute`, `/api/agents/${remoteId}/execute`]) {
    for (const body of [{ task: 'go' }, { input: 'go' }, { agent_id: remoteId, input: 'go' }]) {
      expect((await app.inject(post(url, body))).json()).toEqual(resultFixture())
    }
  }
  for (const url of ['/execute', '/api/execute']) {
    for (const body of [{ task: 'go' }, { input: 'go' }]) {
      expect((await app.inject(post(url, { agent_id: remoteId, ...body }))).statusCode).toBe(200)
    }
  }
  expect(execute).toHaveBeenCalledTimes(10)
  for (const [request] of execute.mock.calls) {
    expect(request).toEqual({ agentId: remoteId, input: 'go', caller: OPERATOR, signal: expect.any(AbortSignal) })
  }
})

test('D33 hands the most a call may cost on, exactly', async () => {
  const execute = vi.fn(async (_: ExecuteRequest) => resultFixture())
  const { app } = fakeServer({ execute })
  for (const max_price of ['0.05', 0.05])
    await app.inject(post('/execute', { agent_id: remoteId, task: 'go', max_price }))
  expect(execute.mock.calls.map(([{ maxPriceAtomic }]) => maxPriceAtomic)).toEqual([50_000n, 50_000n])
})

test('an id in the body that differs from the path executes nothing', async () => {
  const execute = vi.fn(async () => resultFixture())
  const body = { agent_id: localId, task: 'go' }
  const response = await fakeServer({ execute }).app.inject(post(`/agents/${remoteId}/execute`, body))
  expect(response.json()).toMatchObject({ status: 400, errors: [{ path: 'agent_id' }] })
  expect(execute).not.toHaveBeenCalled()
})

test.each(['command', 'http', 'module', 'api_key_env'])(
  'T12 refuses %s over HTTP with 403, before anything is read',
  async (field) => {
    const registerAgent = vi.fn(async () => listingFixture())
    const response = await fakeServer({ registerAgent }).app.inject(post('/agents', { ...agent, [field]: ['sh'] }))
    expect(response.json()).toMatchObject({ status: 403, code: 'FIELD_NOT_ALLOWED' })
    expect(response.json().detail).toMatch(/agents\.yaml/)
    expect(registerAgent).not.toHaveBeenCalled()
  },
)

test('names each field of an agent that is wrong or unknown', async () => {
  const response = await fakeServer().app.inject(post('/agents', { name: '', price: 1e-7, color: 'red' }))
  expect(response.json()).toMatchObject({ status: 400, code: 'INVALID_REQUEST' })
  expect(
    response
      .json()
      .errors.map(({ path }: { path: string }) => path)
      .toSorted(),
  ).toEqual(['color', 'description', 'name', 'price'])
})

test('a model that cannot be understood is a fault of the request', async () => {
  const registerAgent = () =>
    Promise.reject(new CodedError('AGENT_NOT_RUNNABLE', 'there is no builtin/x: choose one of echo'))
  const response = await fakeServer({ registerAgent }).app.inject(post('/agents', { ...agent, model: 'builtin/x' }))
  expect(response.json()).toMatchObject({
    status: 400,
    errors: [{ path: 'model', message: expect.stringContaining('echo') }],
  })
})

test.each(['nope', 'x'.repeat(200), '%00', '..%2f..', '__proto__', 'constructor'])(
  'answers 404 for the agent %s',
  async (id) => {
    const response = await fakeServer().app.inject(`/agents/${id}`)
    expect(response.json()).toMatchObject({ status: 404, code: 'UNKNOWN_AGENT' })
  },
)

test.each([
  ['GET', '/nope', 404, 'NOT_FOUND'],
  ['POST', '/nope', 404, 'NOT_FOUND'],
  ['GET', '/api/api/agents', 404, 'NOT_FOUND'],
  ['GET', '/', 404, 'NOT_FOUND'],
  ['GET', '/execute', 405, 'METHOD_NOT_ALLOWED'],
  ['DELETE', '/agents', 405, 'METHOD_NOT_ALLOWED'],
  ['PUT', `/api/agents/${remoteId}`, 405, 'METHOD_NOT_ALLOWED'],
  ['GET', '/agents/%zz', 400, 'INVALID_REQUEST'],
  ['GET', `/agents/${'x'.repeat(3000)}`, 414, 'URI_TOO_LONG'],
] as const)('D15 %s %s answers %i %s', async (method, url, status, code) => {
  const response = await fakeServer().app.inject({ method, url })
  expect(response.statusCode).toBe(status)
  expect(response.headers['content-type']).toMatch(/^application\/problem\+json/)
  expect(response.headers['x-content-type-options']).toBe('nosniff')
  expect(response.json()).toMatchObject({ status, code })
  if (status === 405) expect(response.headers.allow).toMatch(/OPTIONS/)
})

test.each([
  ['{"agent_id":', 'MALFORMED_JSON'],
  ['', 'MALFORMED_JSON'],
  ['{"agent_id":"a","task":"b","__proto__":{"x":1}}', 'MALFORMED_JSON'],
  ['{"agent_id":"a","task":"b","constructor":{"prototype":{"x":1}}}', 'MALFORMED_JSON'],
  ['null', 'INVALID_REQUEST'],
  ['[]', 'INVALID_REQUEST'],
  ['"text"', 'INVALID_REQUEST'],
  ['{}', 'INVALID_REQUEST'],
  [`${'['.repeat(200_000)}${']'.repeat(200_000)}`, 'MALFORMED_JSON'],
  [`[${'{},'.repeat(200_000)}{}]`, 'MALFORMED_JSON'],
  [`{"agent_id":"a","task":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`, 'MALFORMED_JSON'],
  ['{"agent_id":"a","task":"\\ud800"}', 'INVALID_REQUEST'],
  ['{"agent_id":"a","task":1e400}', 'INVALID_REQUEST'],
])('T8 refuses the body %.60s with 400', async (body, code) => {
  const execute = vi.fn(async () => resultFixture())
  const response = await fakeServer({ execute }).app.inject(post('/execute', body))
  expect(response.json()).toMatchObject({ status: 400, code })
  expect(execute).not.toHaveBeenCalled()
})

test('T8 refuses a body that is not UTF-8, as replacing its bytes would change the task', async () => {
  const payload = Buffer.concat([Buffer.from('{"agent_id":"a","task":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')])
  const headers = { 'content-type': 'application/json' }
  const response = await fakeServer().app.inject({ method: 'POST', url: '/execute', payload, headers })
  expect(response.json()).toMatchObject({ status: 400, code: 'MALFORMED_JSON' })
})

test.each([
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'text/plain; a=application/json',
  'application/jsonp',
  'application/json; charset=utf-16',
  'application/json, text/plain',
  '',
])('T11 takes no body of type %j', async (type) => {
  const execute = vi.fn(async () => resultFixture())
  const registerAgent = vi.fn(async () => listingFixture())
  const { app } = fakeServer({ execute, registerAgent })
  for (const url of ['/agents', '/execute', `/agents/${remoteId}/execute`]) {
    const response = await app.inject(post(url, { agent_id: remoteId, task: 'go' }, { 'content-type': type }))
    expect(response.json()).toMatchObject({ status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' })
  }
  expect(execute).not.toHaveBeenCalled()
  expect(registerAgent).not.toHaveBeenCalled()
})

test('takes JSON that says it is UTF-8, and nothing compressed', async () => {
  const { app } = fakeServer()
  const send = (headers: Record<string, string>) =>
    app.inject(post('/execute', { agent_id: remoteId, task: 'go' }, headers))
  expect((await send({ 'content-type': 'application/json; charset=UTF-8' })).statusCode).toBe(200)
  expect((await send({ 'content-encoding': 'gzip' })).statusCode).toBe(415)
})

test('takes the longest task and says the limit for a longer one', async () => {
  const execute = vi.fn(async (_: ExecuteRequest) => resultFixture())
  const { app } = fakeServer({ execute })
  const send = (task: string) => app.inject(post('/execute', { agent_id: remoteId, task }))
  expect((await send('x'.repeat(TASK_BYTES_MAX))).statusCode).toBe(200)
  expect(execute.mock.calls[0]?.[0].input.length).toBe(TASK_BYTES_MAX)
  for (const task of ['x'.repeat(TASK_BYTES_MAX + 1), 'é'.repeat(TASK_BYTES_MAX / 2 + 1), 'x'.repeat(BODY_BYTES_MAX)]) {
    const response = await send(task)
    expect(response.json()).toMatchObject({ status: 413, code: 'INPUT_TOO_LARGE' })
    expect(response.json().detail).toContain(String(TASK_BYTES_MAX))
  }
  expect(execute).toHaveBeenCalledOnce()
})

test('limits the body of an agent', async () => {
  const response = await fakeServer().app.inject(post('/agents', { ...agent, description: 'x'.repeat(400_000) }))
  expect(response.json()).toMatchObject({ status: 413, code: 'BODY_TOO_LARGE' })
})

test.each([
  ['/agents?on-chain=true', 'on-chain'],
  [`/agents/${remoteId}?expand=1`, 'expand'],
  ['/health?t=1', 't'],
  ['/orders?status=failed&sort=x', 'sort'],
])('GET %s is refused: an unknown parameter may have been meant to narrow the answer', async (url, path) => {
  const response = await fakeServer().app.inject(url)
  const message = 'is not a parameter of this operation'
  expect(response.json()).toMatchObject({ status: 400, code: 'INVALID_REQUEST', errors: [{ path, message }] })
})

test('an unknown parameter of what acts is refused before anything is done', async () => {
  const { app } = fakeServer()
  const response = await app.inject(post('/execute?dry_run=true', { agent_id: remoteId, task: 'go' }))
  expect(response.json()).toMatchObject({ status: 400, errors: [{ path: 'dry_run' }] })
})

test('a slash at the end of a path changes nothing, and an id that is empty is no path', async () => {
  const { app } = fakeServer()
  const [plain, slashed] = await Promise.all([app.inject('/agents'), app.inject('/api/agents/')])
  expect([slashed.statusCode, slashed.body]).toEqual([200, plain.body])
  expect((await app.inject({ method: 'OPTIONS', url: '/agents/' })).headers.allow).toBe('GET, POST, HEAD, OPTIONS')
  const empty = await app.inject(post('/agents//execute', { task: 'x' }))
  expect(empty.json()).toMatchObject({ status: 404, code: 'NOT_FOUND', detail: expect.stringContaining('no id') })
})

test('OPTIONS offers the methods that are there, and no other is answered', async () => {
  const { app } = fakeServer()
  const paths = Map.groupBy(apiOperations(fakeDeps()), ({ path }) => path)
  for (const [path, rows] of paths) {
    const url = path.replace(/\{\w+\}/g, remoteId)
    const methods = rows.map(({ method }) => method as string)
    const expected = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS']
    const { headers } = await app.inject({ method: 'OPTIONS', url })
    expect([path, String(headers.allow).split(', ').toSorted()]).toEqual([path, expected.toSorted()])
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'] as const) {
      if (methods.includes(method)) continue
      const refused = await app.inject({ method, url })
      expect([method, path, refused.json().code]).toEqual([method, path, 'METHOD_NOT_ALLOWED'])
    }
  }
})

test('D15 hands errors of the exchange on with what is known of them', async () => {
  class PeerError extends CodedError {
    readonly correlationId = '7e7d1f3c-1f1e-4b69-9b0e-1f4a9f6a3f10'
    readonly retryable = true
  }
  const execute = () => Promise.reject(new PeerError('SETTLEMENT_FAILED', 'the facilitator is down'))
  const response = await fakeServer({ execute }).app.inject(post('/execute', { agent_id: remoteId, task: 'go' }))
  expect(response.statusCode).toBe(502)
  expect(response.json()).toMatchObject({
    code: 'SETTLEMENT_FAILED',
    error_code: 2007,
    detail: 'the facilitator is down',
    correlation_id: '7e7d1f3c-1f1e-4b69-9b0e-1f4a9f6a3f10',
    retryable: true,
  })
})

test('D15 T21 a 500 shows nothing, and the log has it under the id it shows', async () => {
  const lines: { fields: object; message: string }[] = []
  const logger: Logger = { ...silentLogger, error: (fields, message) => lines.push({ fields, message }) }
  const error = new Error('the key 0xdeadbeef is in /home/me')
  const { app } = fakeServer({ logger, balance: () => Promise.reject(error) })
  const response = await app.inject('/wallet/balance')
  expect(response.statusCode).toBe(500)
  expect(response.body).not.toMatch(/deadbeef|home/)
  const { correlation_id } = response.json()
  expect(lines).toMatchObject([{ fields: { err: error, correlation_id, operation: 'getWalletBalance' } }])
})

test('T8 one listing that cannot be shown does not hide the others', async () => {
  const error = vi.fn()
  const broken = listingFixture({ expires_at: '+275760-09-13T00:00:00.000Z' })
  const listings = () => [broken, listingFixture({ id: localId })]
  const { app } = fakeServer({ logger: { ...silentLogger, error }, listings })
  const response = await app.inject('/agents')
  expect(response.json().map(({ id }: { id: string }) => id)).toEqual([localId])
  expect(error).toHaveBeenCalledOnce()
})

test('T21 shows no field that the schema does not have', async () => {
  const listings = () => [{ ...listingFixture(), privateKey: '0xsecret' }]
  expect((await fakeServer({ listings }).app.inject('/agents')).body).not.toContain('secret')
})

test('refuses new requests once the node stops', async () => {
  const { app, refuseRequests } = fakeServer()
  refuseRequests()
  const response = await app.inject('/health')
  expect(response.json()).toMatchObject({ status: 503, code: 'STOPPING', retryable: true })
  expect(response.headers.connection).toBe('close')
})

test('the documentation page names every operation and may load nothing', async () => {
  const { app } = fakeServer()
  for (const url of ['/docs', '/api/docs']) {
    const { body, headers } = await app.inject(url)
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
    const style = createHash('sha256')
      .update(/<style>(.*?)<\/style>/s.exec(body)?.[1] ?? '')
      .digest('base64')
    expect(headers['content-security-policy']).toContain(`default-src 'none'; style-src 'sha256-${style}';`)
    expect(body).not.toMatch(/<script|<link|<img|src=|@import|url\(/i)
    for (const id of ['getHealth', 'listAgents', 'registerAgent', 'execute', 'executeAgent', 'getWalletBalance']) {
      expect(body).toContain(`<article id="${id}">`)
    }
    expect(body).toContain('<tr id="OVER_PRICE">')
    expect(body).toContain('&#34;max_price&#34;')
  }
  const { body } = await app.inject({ url: '/docs', headers: { host: 'localhost:9999' } })
  expect(body).toContain('curl http://localhost:9999/health')
})
