import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { call } from './client.ts'

type Sent = { path: string; key: string | null }
const sent: Sent[] = []
let answers: (Response | Error)[] = []

beforeEach(() => {
  sent.length = 0
  vi.stubGlobal('sessionStorage', { getItem: () => null })
  vi.stubGlobal('fetch', async (path: string, { headers }: RequestInit) => {
    sent.push({ path, key: new Headers(headers).get('idempotency-key') })
    const answer = answers.shift() ?? Response.json({})
    if (answer instanceof Error) throw answer
    return answer
  })
})
afterEach(() => vi.unstubAllGlobals())

const post = (path: string, body: object) => call(path, { method: 'POST', body }).catch(() => {})
const keys = () => sent.map(({ key }) => key)

test.each(['/orders', '/orders/o-1/execute', '/workflows'])(
  'D38 a purchase by POST %s keeps its key until it is answered, and the next purchase has a new key',
  async (path) => {
    answers = [new Error('connection lost'), Response.json({ detail: 'no' }, { status: 502 }), Response.json({})]
    for (let tries = 0; tries < 4; tries++) await post(path, { task: 'a' })
    const [first, second, third, next] = keys()
    expect(first).toMatch(/^[0-9a-f]{32}$/)
    expect([second, third]).toEqual([first, first])
    expect(next).not.toBe(first)
  },
)

test('D38 a different purchase has a different key', async () => {
  answers = [new Error('connection lost')]
  await post('/orders', { task: 'a' })
  await post('/orders', { task: 'b' })
  expect(new Set(keys()).size).toBe(2)
})

test('a request that spends nothing is sent without a key', async () => {
  await post('/workflows?dry_run=true', { input: 'a' })
  await post('/tokens', { name: 'a' })
  await call('/orders')
  expect(keys()).toEqual([null, null, null])
})
