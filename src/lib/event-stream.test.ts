import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { until } from '../../test/support/until.ts'
import { type ServerSentEvent, sendEvents } from './event-stream.ts'

/** A client that reads these events. */
async function reading(
  events: () => AsyncIterable<ServerSentEvent>,
): Promise<{ said(): string; ended: Promise<unknown> }> {
  const server = createServer((request, response) => {
    const left = new AbortController()
    request.once('close', () => left.abort())
    void sendEvents(response, events(), left.signal)
  })
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const asked = get({ port: (server.address() as AddressInfo).port, agent: false })
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  let said = ''
  answer.on('data', (bytes) => {
    said += bytes
  })
  return { said: () => said, ended: once(answer, 'end') }
}

test('a stream that is silent is kept alive every 15 s, by comments that no client takes for an event', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { promise: works, resolve: end } = Promise.withResolvers<void>()
  const client = await reading(async function* () {
    yield { data: 'begun' }
    await works
    yield { event: 'last', text: '[DONE]' }
  })
  const begun = 'data: "begun"\n\n'
  await until(() => client.said() === begun)
  vi.advanceTimersByTime(14_999)
  vi.advanceTimersByTime(1)
  await until(() => client.said() === `${begun}:\n\n`)
  vi.advanceTimersByTime(30_000)
  await until(() => client.said() === `${begun}:\n\n:\n\n:\n\n`)
  end()
  await client.ended
  expect(client.said()).toBe(`${begun}:\n\n:\n\n:\n\nevent: last\ndata: [DONE]\n\n`)
  expect(vi.getTimerCount()).toBe(0)
})
