import { expect, test } from 'vitest'
import { fakeServer } from '../../../test/support/fake-api.ts'
import { CodedError } from '../../lib/errors.ts'
import { type Mount, restOf, withoutPrefix } from './mount.ts'

const calls: Parameters<Mount['handle']>[0][] = []
const mount = (changes: Partial<Mount> = {}): Mount => ({
  path: '/other',
  methods: ['GET', 'POST'],
  requestHeaders: ['x-other'],
  access: (method, rest) => (method === 'GET' && rest === '/card' ? 'health' : 'private'),
  scope: () => 'execute',
  async handle(call) {
    calls.push(call)
    call.response.setHeader('content-type', 'text/event-stream')
    call.response.write('data: 1\n\n')
    call.response.end('data: 2\n\n')
  },
  ...changes,
})
const serve = (one: Mount, options = {}) => fakeServer({ mounts: [one] }, options).app

test.each([
  ['/other', ''],
  ['/other/', '/'],
  ['/other?x=1', '?x=1'],
  ['/other/a/b?c', '/a/b?c'],
  ['/api/other/a', '/a'],
  ['/other/%2e%2e/status', '/%2e%2e/status'],
])('%s belongs to the mount, with %j left', (path, rest) => {
  expect(restOf(mount(), withoutPrefix(path))).toBe(rest)
})
test.each(['/othe', '/others', '/other;a', '/api', '/apiother', '/x/other', '//other', '/API/other', ''])(
  '%s does not',
  (path) => {
    expect(restOf(mount(), withoutPrefix(path))).toBeUndefined()
  },
)

test('a mount answers by itself, and keeps the headers of the doors', async () => {
  const response = await serve(mount()).inject({
    method: 'POST',
    url: '/api/other/a?b=c',
    headers: { host: 'localhost:8424', 'content-type': 'application/octet-stream', origin: 'http://localhost:3000' },
    payload: Buffer.from([0xff]),
  })
  expect(response.payload).toBe('data: 1\n\ndata: 2\n\n')
  expect(response.headers).toMatchObject({
    'content-type': 'text/event-stream',
    'access-control-allow-origin': 'http://localhost:3000',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  })
  expect(calls.at(-1)).toMatchObject({ rest: '/a?b=c', url: 'http://localhost:8424/other' })
})

test('behind a proxy that speaks TLS, links say so', async () => {
  const headers = { host: 'Node.Example', 'x-forwarded-proto': 'https' }
  await serve(mount(), { allowedHosts: ['node.example'] }).inject({ url: '/other/card', headers })
  expect(calls.at(-1)?.url).toBe('https://node.example/other')
})

test.each([
  ['an error of its own', new CodedError('UNKNOWN_AGENT', 'nobody'), 404, 'UNKNOWN_AGENT'],
  ['a fault, of which nothing is shown', new Error('secret path /home/x'), 500, 'INTERNAL'],
])('what a mount throws is a problem: %s', async (_, error, status, code) => {
  const failing = mount({ handle: () => Promise.reject(error) })
  const response = await serve(failing).inject({ url: '/other' })
  expect(response.json()).toMatchObject({ status, code })
  expect(response.headers['content-type']).toBe('application/problem+json')
  expect(response.payload).not.toContain('secret path')
})

test('T11 a mount is reached through the doors alone', async () => {
  const before = calls.length
  const app = serve(mount(), { host: '0.0.0.0' })
  const ask = (headers: Record<string, string>, url = '/other') => app.inject({ method: 'POST', url, headers })
  expect((await ask({ host: 'evil.example' })).json().code).toBe('HOST_NOT_ALLOWED')
  expect((await ask({ host: '10.0.0.1', origin: 'https://evil.example' })).json().code).toBe('ORIGIN_NOT_ALLOWED')
  expect((await ask({ host: '10.0.0.1' })).json().code).toBe('TOKEN_REQUIRED')
  expect((await ask({ host: '10.0.0.1', authorization: 'Bearer wrong' }, '/api/other/card')).json().code).toBe(
    'TOKEN_WRONG',
  )
  // The router decodes what the doors do not: such a path is nobody's.
  expect((await ask({ host: '10.0.0.1', authorization: 'Bearer a-token-of-some-length' }, '/%6fther')).statusCode).toBe(
    404,
  )
  expect(calls.length).toBe(before)
  expect((await app.inject({ url: '/other/card', headers: { host: '10.0.0.1' } })).statusCode).toBe(200)
})

test('methods a mount does not have are refused, and OPTIONS names those it has', async () => {
  const app = serve(mount())
  const refused = await app.inject({ method: 'PUT', url: '/other' })
  expect([refused.statusCode, refused.headers.allow]).toEqual([405, 'GET, POST, HEAD, OPTIONS'])
  const headers = { origin: 'http://localhost:1', 'access-control-request-method': 'POST' }
  const preflight = await app.inject({ method: 'OPTIONS', url: '/other/x', headers })
  expect(preflight.headers['access-control-allow-headers']).toBe(
    'authorization, content-type, idempotency-key, last-event-id, x-other',
  )
})
