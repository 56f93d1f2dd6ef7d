/** Signed messages to real HTTP servers on loopback. */
import { createHmac, randomUUID } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { Feed } from '../../src/lib/feed.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createPost } from '../../src/lib/post.ts'
import type { NodeEvents } from '../../src/schema/events.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createWebhookStore } from '../../src/store/webhooks.ts'
import { Webhooks } from '../../src/webhooks/webhooks.ts'
import { HandClock } from '../support/hand-clock.ts'
import { startTestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const SECRET = 'a-secret-that-nobody-can-guess'
const servers: { stop(): void }[] = []
const services: Webhooks[] = []
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.stop()))
  for (const server of servers.splice(0)) server.stop()
})

type Got = { headers: IncomingHttpHeaders; body: string }
async function listen(status: () => number | undefined = () => 204) {
  const got: Got[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    got.push({ headers: request.headers, body })
    const code = status()
    if (code === undefined) return
    if (code === 302) response.setHeader('location', '/elsewhere')
    response.writeHead(code).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  servers.push({
    stop() {
      server.closeAllConnections()
      server.close()
    },
  })
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` }
}

const database = () => openDatabase({ path: ':memory:' })
async function start(changes: Partial<ConstructorParameters<typeof Webhooks>[0]>) {
  const feed = changes.feed ?? new Feed<NodeEvents>({ life: randomUUID().slice(0, 8) })
  const webhooks = new Webhooks({
    ...{ isShared: false, isKeeper: async () => true },
    clock: new HandClock(),
    logger: silentLogger,
    store: createWebhookStore(database()),
    feed,
    newId: randomUUID,
    postOut: createPost({ publicOnly: true }),
    postAnywhere: createPost({ publicOnly: false }),
    configured: [],
    ...changes,
  })
  services.push(webhooks)
  await webhooks.start()
  const publish = (agent_id: string) =>
    feed.publish('listing', agent_id, () => ({ change: 'listed', agent_id, seller_id: 'me' }))
  return { webhooks, publish, feed }
}
const agentsOf = (got: readonly Got[]) => got.map(({ body }) => JSON.parse(body).data.agent_id)
const hook = (url: string, events = ['listing']) => ({ url, events, secret: SECRET })

test('an address is sent what it asked for, signed', async () => {
  const clock = new HandClock()
  const { got, url } = await listen()
  const { webhooks, publish, feed } = await start({ clock, configured: [hook(url, ['listing.listed'])] })
  publish('a')
  feed.publish('listing', 'b', () => ({ change: 'delisted', agent_id: 'b', seller_id: 'me' }))
  publish('c')
  await until(() => got.length === 2)
  expect(agentsOf(got)).toEqual(['a', 'c'])
  const [{ headers, body }] = got as [Got]
  const { 'webhook-id': id, 'webhook-timestamp': at } = headers
  const signature = createHmac('sha256', SECRET).update(`${id}.${at}.${body}`).digest('base64')
  expect(headers['webhook-signature']).toBe(`v1,${signature}`)
  expect(Number(at)).toBe(Math.floor(clock.now() / 1000))
  await until(async () => (await webhooks.list())[0]!.delivered === 2)
  expect(JSON.stringify(await webhooks.list())).not.toContain(SECRET)
})

test('T16 what is not taken is kept over a restart and sent again, under the same id, when its time has come', async () => {
  const clock = new HandClock()
  const store = createWebhookStore(database())
  let status = 500
  const { got, url } = await listen(() => status)
  const first = await start({ clock, store, configured: [hook(url)] })
  first.publish('a')
  await until(async () => (await first.webhooks.list())[0]!.last_error !== undefined)
  const { id } = (await first.webhooks.list())[0]!
  await until(async () => (await store.dueInMs(id, clock.now())) === 5_000)
  expect((await first.webhooks.list())[0]).toMatchObject({ pending: 1, delivered: 0, last_error: 'it answered 500' })
  await first.webhooks.stop()
  status = 200
  const early = await start({ clock, store, configured: [hook(url)] })
  early.publish('b')
  await until(async () => (await early.webhooks.list())[0]!.delivered === 1)
  expect(agentsOf(got)).toEqual(['a', 'b'])
  await early.webhooks.stop()
  clock.advance(5_000)
  const late = await start({ clock, store, configured: [hook(url)] })
  await until(async () => (await late.webhooks.list())[0]!.pending === 0)
  expect(agentsOf(got)).toEqual(['a', 'b', 'a'])
  expect(got[2]!.headers['webhook-id']).toBe(got[0]!.headers['webhook-id'])
})

test('while one process sends a message, another sends none to that webhook: they keep their order', async () => {
  const clock = new HandClock()
  const store = createWebhookStore(database())
  let status: number | undefined
  const { got, url } = await listen(() => status)
  const first = await start({ clock, store, configured: [hook(url)] })
  first.publish('a')
  await until(() => got.length === 1)
  const second = await start({ clock, store, configured: [hook(url)] })
  status = 204
  second.publish('b')
  await until(async () => (await second.webhooks.list())[0]!.pending === 2)
  expect(agentsOf(got)).toEqual(['a'])
  await first.webhooks.stop()
  second.publish('c')
  await until(async () => (await second.webhooks.list())[0]!.pending === 0)
  expect(agentsOf(got)).toEqual(['a', 'a', 'b', 'c'])
})

test('T19 one that never answers holds up no other, and its queue is bounded', async () => {
  const silent = await listen(() => undefined)
  const quick = await listen()
  const store = createWebhookStore(database())
  const feed = new Feed<NodeEvents>({ life: 'x', queueMax: 5_000 })
  const { webhooks, publish } = await start({ store, feed, configured: [hook(silent.url), hook(quick.url)] })
  for (let n = 0; n < 1_010; n++) publish(`${n}`)
  await until(() => quick.got.length >= 1_000)
  await until(async () => (await webhooks.list())[0]!.dropped > 0)
  expect((await webhooks.list())[0]!.pending).toBeLessThanOrEqual(1_000)
  await webhooks.stop()
  await start({ store, configured: [hook(quick.url)] })
  expect((await store.pending()).get((await webhooks.list())[0]!.id)).toBe(undefined)
})

test.each([
  'https://127.0.0.1/x',
  'https://localhost/x',
  'https://[::1]/x',
  'https://[::ffff:127.0.0.1]/x',
  'https://2130706433/x',
])('T12 an address the API was given leads out into the internet, not to %s', async (url) => {
  const { webhooks } = await start({})
  const { id } = await webhooks.create({ ...hook(url), secret: SECRET })
  expect(await webhooks.test(id)).toMatchObject({
    delivered: false,
    error: expect.stringMatching(/is no address of the open internet/),
  })
})

test('a redirect is not followed', async () => {
  const { got, url } = await listen(() => 302)
  const { webhooks } = await start({ configured: [hook(url)] })
  expect(await webhooks.test((await webhooks.list())[0]!.id)).toMatchObject({ delivered: false, status: 302 })
  expect(got).toHaveLength(1)
})

test('a node tells the addresses in its config.yaml, and refuses to start without the secret', async () => {
  const { got, url } = await listen()
  const webhooks = [{ url, secret_env: 'HOOK_SECRET', events: ['listing'] }]
  const { node, stop, url: apiUrl } = await startTestNode({ webhooks, environment: { HOOK_SECRET: SECRET } })
  await node.registerAgent({ name: 'a', description: 'b', price: 0n, model: 'builtin/echo' })
  await until(() => got.length === 1)
  expect(JSON.parse(got[0]!.body)).toMatchObject({
    type: 'listing.listed',
    data: { name: 'a', seller_id: node.peerId },
  })
  const [listed] = (await (await fetch(`${apiUrl}/webhooks`)).json()) as [{ id: string }]
  const removed = await fetch(`${apiUrl}/webhooks/${listed.id}`, { method: 'DELETE' })
  expect(removed.status).toBe(409)
  await stop()
  await expect(startTestNode({ webhooks })).rejects.toThrow(
    /the variable HOOK_SECRET, which secret_env names, is not set/,
  )
})

test('followers that take every place of the feed do not silence webhooks, not even after a burst', async () => {
  const { got, url } = await listen()
  const feed = new Feed<NodeEvents>({ life: 'x', subscribersMax: 1, queueMax: 2 })
  feed.subscribe()
  const { publish, webhooks } = await start({ feed, configured: [hook(url)] })
  publish('a')
  await until(() => got.length === 1)
  for (const id of ['b', 'c', 'd', 'e', 'f']) publish(id)
  feed.subscribe()
  await until(() => {
    publish('later')
    return agentsOf(got).includes('later')
  })
  expect(await webhooks.list()).toMatchObject([{ dropped: 0 }])
})
