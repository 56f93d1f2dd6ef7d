import { expect, test, vi } from 'vitest'
import { guardFetch, ResponseTooLargeError } from './guarded-fetch.ts'

test('an endless answer is read to a limit and then let go (T7)', async () => {
  let sent = 0
  const canceled = vi.fn()
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 65_536
      controller.enqueue(new Uint8Array(65_536))
    },
    cancel: canceled,
  })
  const response = await guardFetch(async () => new Response(endless), 1000)('http://127.0.0.1/')
  await expect(response.text()).rejects.toThrow(ResponseTooLargeError)
  expect(sent).toBeLessThan(2 * 1024 * 1024)
  expect(canceled).toHaveBeenCalledOnce()
})

test('an answer within the limit is passed on as it is', async () => {
  const answer = new Response('{"a": 1}', { status: 203, headers: { 'x-a': 'b' } })
  const response = await guardFetch(async () => answer, 1000)('http://127.0.0.1/')
  expect([response.status, response.headers.get('x-a'), await response.json()]).toEqual([203, 'b', { a: 1 }])
})

test('no redirect is followed, whatever the caller asks (T12)', async () => {
  const fetchIt = vi.fn<typeof fetch>(
    async () => new Response(null, { status: 307, headers: { location: 'http://thief/' } }),
  )
  const signal = new AbortController().signal
  const response = await guardFetch(fetchIt, 1000)('http://127.0.0.1/', { redirect: 'follow', signal })
  expect(response.status).toBe(307)
  expect(fetchIt).toHaveBeenCalledWith('http://127.0.0.1/', { redirect: 'manual', signal })
})
