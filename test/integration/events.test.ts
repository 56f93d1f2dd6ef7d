/** GET /events over a real socket. */
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { createApiClient } from '../../src/http/client/client.ts'
import { createApi } from '../../src/http/server/app.ts'
import { Feed } from '../../src/lib/feed.ts'
import type { NodeEvents } from '../../src/schema/events.ts'
import { fakeDeps, loopbackOptions, statusFixture } from '../support/fake-api.ts'
import { until } from '../support/until.ts'

const listing = (agent_id: string): NodeEvents['listing'] => ({ change: 'listed', agent_id, seller_id: 'me' })

async function startApi(feed: Feed<NodeEvents>) {
  const api = createApi(loopbackOptions, fakeDeps({ events: feed }))
  await api.start()
  return { api, open: (path = '/events', headers = {}) => follow(api.url + path, headers) }
}

/** A stream of events as its bytes come. */
async function follow(url: string, headers: Record<string, string>) {
  const request = get(url, { headers, agent: false })
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  const stream = { status: response.statusCode, type: response.headers['content-type'], text: '', ended: false }
  response.setEncoding('utf8').on('data', (text: string) => {
    stream.text += text
  })
  response.on('end', () => {
    stream.ended = true
  })
  return { stream, response, leave: () => request.destroy() }
}

test('reports events as they happen, and ends when the node stops', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const { api, open } = await startApi(feed)
  const all = await open()
  const some = await open('/api/events?types=status,order')
  await until(() => some.stream.text !== '')
  expect(all.stream).toMatchObject({ status: 200, type: 'text/event-stream; charset=utf-8' })
  feed.publish('listing', 'a', () => listing('a'))
  feed.publish('status', 'status', () => statusFixture)
  await until(() => some.stream.text.includes('event: status'))
  await until(() => all.stream.text.includes('event: status'))
  expect(all.stream.text).toBe(
    `id: x-0\n\nid: x-1\nevent: listing\ndata: {"change":"listed","agent_id":"a","seller_id":"me"}\n\n` +
      `id: x-2\nevent: status\ndata: ${JSON.stringify(statusFixture)}\n\n`,
  )
  expect(some.stream.text).not.toContain('listing')
  feed.close()
  await until(() => all.stream.ended && some.stream.ended)
  await api.stop()
})

test('Last-Event-ID brings what was missed, or a reset', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const { api, open } = await startApi(feed)
  for (const id of ['a', 'b']) feed.publish('listing', id, () => listing(id))
  const back = await open('/events', { 'last-event-id': 'x-1' })
  await until(() => back.stream.text.includes('"b"'))
  expect(back.stream.text).toMatch(/^id: x-2\nevent: listing\n/)
  const stranger = await open('/events', { 'last-event-id': 'y-7' })
  await until(() => stranger.stream.text !== '')
  expect(stranger.stream.text).toBe('id: x-2\nevent: reset\ndata: {}\n\n')
  feed.close()
  await api.stop()
})

test('D16 T8 pages of foreign origins may not follow, and at most so many may; one that leaves makes room', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x', subscribersMax: 1 })
  const { api, open } = await startApi(feed)
  expect((await open('/events', { origin: 'https://evil.example' })).stream.status).toBe(403)
  expect((await open('/events?types=secrets')).stream.status).toBe(400)
  const first = await open()
  const second = await open()
  expect(second.stream.status).toBe(429)
  first.leave()
  await until(() => !feed.isWatched('order'))
  expect((await open()).stream.status).toBe(200)
  feed.close()
  await api.stop()
})

test('the client makes a lost connection again and misses nothing; what it lost too long ago is a reset', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x', historyMax: 3 })
  const { api } = await startApi(feed)
  const connections: AbortController[] = []
  const cut: typeof fetch = (url, init) => {
    const connection = new AbortController()
    connections.push(connection)
    return fetch(url, { ...init, signal: AbortSignal.any([init!.signal!, connection.signal]) })
  }
  const client = createApiClient({ baseUrl: api.url }, { fetch: cut })
  const stop = new AbortController()
  const seen: string[] = []
  let lost = 0
  const following = (async () => {
    for await (const event of client.events({
      types: ['listing', 'order'],
      signal: stop.signal,
      onLost: () => lost++,
    })) {
      seen.push(event.type === 'listing' ? event.data.agent_id : event.type)
    }
  })()
  const publish = (id: string) => feed.publish('listing', id, () => listing(id))
  await until(() => feed.isWatched('listing'))
  publish('a')
  await until(() => seen.length === 1)
  connections[0]!.abort()
  publish('b')
  publish('c')
  await until(() => seen.length === 3)
  connections[1]!.abort()
  for (const id of ['d', 'e', 'f', 'g']) publish(id)
  await until(() => seen.length === 4)
  expect(seen).toEqual(['a', 'b', 'c', 'reset'])
  expect(lost).toBe(2)
  stop.abort()
  await following
  feed.close()
  await api.stop()
  await expect(client.events().next()).rejects.toThrow(expect.objectContaining({ code: 'API_UNREACHABLE' }))
})

test('T7 a client that reads nothing gets a reset and is closed; no events are kept for it', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const { api, open } = await startApi(feed)
  const stuck = await open('/events?types=listing')
  stuck.response.pause()
  const name = 'x'.repeat(100_000)
  let read = 0
  for (let n = 0; n < 1_000 && feed.isWatched('listing'); n++) {
    feed.publish('listing', `${n}`, () => {
      read++
      return { ...listing(`${n}`), name }
    })
    await new Promise(setImmediate)
  }
  expect(feed.isWatched('listing')).toBe(false)
  // As much as the socket took, not what was published.
  expect(read).toBeLessThan(700)
  stuck.response.resume()
  await until(() => stuck.stream.ended)
  expect(stuck.stream.text.slice(-60)).toMatch(/event: reset\ndata: \{\}\n\n$/)
  await api.stop()
})

test('a stream of events ends with its token, at the next thing it would tell', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const deps = fakeDeps({ events: feed })
  const api = createApi(loopbackOptions, deps)
  await api.start()
  const { id, token } = await deps.buyer.tokens.create({ name: 'a', scope: 'read' })
  const headers = { authorization: `Bearer ${token}` }
  const { stream } = await follow(`${api.url}/events`, headers)
  feed.publish('listing', 'a', () => listing('before'))
  await until(() => stream.text.includes('before'))
  await deps.buyer.tokens.revoke(id)
  feed.publish('listing', 'a', () => listing('after'))
  await until(() => stream.ended)
  expect(stream.text).not.toContain('after')
  await api.stop()
})

test('a HEAD request for the stream takes nobody’s slot', async () => {
  const feed = new Feed<NodeEvents>({ life: 'x', subscribersMax: 1 })
  const { api, open } = await startApi(feed)
  for (let asked = 0; asked < 2; asked++) {
    const head = await fetch(`${api.url}/events`, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  }
  const { stream, leave } = await open()
  expect(stream.status).toBe(200)
  leave()
  await api.stop()
})
