import { expect, test } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { httpRuntime } from './http-agent.ts'

const never = new AbortController().signal
const call = { input: 'Grüße', callerId: 'local', history: [], signal: never }
const URL_OF_SERVICE = 'http://127.0.0.1:8000/task?key=1'

function agent(answer: typeof fetch, token?: string) {
  const options = { name: 'a', url: URL_OF_SERVICE, token, outputBytesMax: 10 }
  return httpRuntime(options, { fetch: answer, logger: silentLogger })
}

test('D10: the task is the body of a POST, the answer is the result and is shown as it comes', async () => {
  const asked: unknown[] = []
  const shown: string[] = []
  const service = agent(async (url, init) => {
    const { method, body, redirect, headers } = init ?? {}
    asked.push([url, method, body, redirect, new Headers(headers).get('authorization')])
    return new Response('schön')
  }, 'secret')
  expect(await service.run({ ...call, onOutput: (text) => shown.push(text) })).toBe('schön')
  expect(asked).toEqual([[URL_OF_SERVICE, 'POST', 'Grüße', 'manual', 'Bearer secret']])
  expect([shown.join(''), service.model]).toEqual(['schön', 'http'])
})

test.each<[string, () => Promise<Response>, string]>([
  ['an error', async () => new Response('stack', { status: 500 }), 'AGENT_FAILED'],
  [
    'T12 a redirect',
    async () => new Response('', { status: 302, headers: { location: 'http://else/' } }),
    'AGENT_FAILED',
  ],
  ['no answer', () => Promise.reject(new TypeError(`fetch failed: ${URL_OF_SERVICE}`)), 'AGENT_FAILED'],
  ['more than the limit', async () => new Response('12345678901'), 'AGENT_OUTPUT_TOO_LARGE'],
])('%s is no result, and what the service said is not told', async (_, answer, code) => {
  const failed = await agent(answer)
    .run(call)
    .catch((error: unknown) => error)
  expect(failed).toMatchObject({ code })
  expect(String(failed)).not.toMatch(/stack|8000|else/)
})

test('a cancel reaches the service', async () => {
  const cancel = new AbortController()
  const running = agent((_, init) => {
    const { promise, reject } = Promise.withResolvers<Response>()
    init?.signal?.addEventListener('abort', () => reject(new Error('aborted')))
    return promise
  }).run({ ...call, signal: cancel.signal })
  cancel.abort()
  await expect(running).rejects.toMatchObject({ code: 'AGENT_CANCELLED' })
})
