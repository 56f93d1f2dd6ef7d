import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { until } from '../../test/support/until.ts'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { Feed } from '../lib/feed.ts'
import { silentLogger } from '../lib/logger.ts'
import { StoreError } from '../store/store-error.ts'
import type { StoredWebhook, WebhookStore } from '../store/webhooks.ts'
import { Webhooks } from './webhooks.ts'

/** Webhooks over a store that takes a turn of the event loop for each message, and what it was given. */
async function setup(changed: Partial<WebhookStore> = {}) {
  const feed: NodeFeed = new Feed({ life: 'a' })
  const told: string[] = []
  const warnings: string[] = []
  const store = {
    all: async () => [],
    keepOnly: async () => {},
    take: async () => undefined,
    dueInMs: async () => undefined,
    async enqueue(deliveries: Parameters<WebhookStore['enqueue']>[0]) {
      await new Promise((resolve) => setImmediate(resolve))
      for (const { body } of deliveries) told.push(JSON.parse(body).data.agent_id)
      return new Map()
    },
    ...changed,
  }
  let ids = 0
  const webhooks = new Webhooks({
    ...{ isShared: false, isKeeper: async () => true },
    clock: new HandClock(),
    logger: { ...silentLogger, warn: (_fields, message) => void warnings.push(message) },
    store: store as unknown as WebhookStore,
    feed,
    newId: () => `message ${ids++}`,
    postOut: async () => 204,
    postAnywhere: async () => 204,
    configured: [{ url: 'http://127.0.0.1:9/', events: ['listing'], secret: 'x'.repeat(32) }],
  })
  await webhooks.start()
  const publish = (from: number, to: number) => {
    for (let n = from; n < to; n++) {
      const data = { change: 'listed' as const, agent_id: `agent ${n}`, seller_id: 'seller' }
      feed.publish('listing', data.agent_id, () => data)
    }
  }
  return { webhooks, publish, told, warnings }
}
const names = (count: number) => Array.from({ length: count }, (_, n) => `agent ${n}`)

test('a burst beyond the queue of the feed is told in full, in order', async () => {
  const { webhooks, publish, told, warnings } = await setup()
  publish(0, 10)
  await until(() => told.length > 0)
  publish(10, 900)
  await until(() => told.length === 900)
  publish(900, 1000)
  await until(() => told.length === 1000)
  expect(told).toEqual(names(1000))
  expect(warnings).toEqual([])
  await webhooks.stop()
})

test('where even its history does not go back far enough, that is said, and telling goes on', async () => {
  const { webhooks, publish, told, warnings } = await setup()
  publish(0, 3000)
  await until(() => warnings.length > 0)
  publish(3000, 3010)
  await until(() => told.at(-1) === 'agent 3009')
  expect(warnings).toEqual(['too much happened at once: webhooks were not told of all of it'])
  await webhooks.stop()
})

test('a message that is queued while the store is asked for the next one is sent at once', async () => {
  const waiting: number[] = []
  const looks = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let seen = 0
  const { webhooks, publish, told } = await setup({
    async enqueue(deliveries) {
      for (const [no] of deliveries.entries()) waiting.push(no)
      return new Map()
    },
    async take(webhookId, { until: leasedUntil }) {
      const no = waiting.shift()
      return no === undefined ? undefined : { no, id: 'a', webhookId, body: '{}', attempts: 0, leasedUntil }
    },
    async done(no) {
      told.push(`${no}`)
    },
    async dueInMs() {
      looks[seen++]?.resolve()
      await looks[1]!.promise
      return undefined
    },
  })
  await looks[0]!.promise
  publish(0, 1)
  await until(() => waiting.length === 1)
  looks[1]!.resolve()
  await until(() => told.length === 1)
  await webhooks.stop()
})

test('an event that cannot be stored while the ledger is away is told when it is back, in its turn', async () => {
  const kept: string[] = []
  let isAway = true
  const { webhooks, publish } = await setup({
    async enqueue(deliveries) {
      if (isAway) throw new StoreError('STORE_AWAY', 'the database cannot be reached')
      for (const { body } of deliveries) kept.push(JSON.parse(body).data.agent_id)
      return new Map()
    },
  })
  publish(0, 2)
  await new Promise((resolve) => setTimeout(resolve, 50))
  isAway = false
  await until(() => kept.length === 2)
  expect(kept).toEqual(names(2))
  isAway = true
  publish(2, 3)
  await webhooks.stop()
})

test('what is added or removed while the webhooks are read anew stays so', async () => {
  const stored = new Map<string, StoredWebhook>()
  const reads: (() => void)[] = []
  let isSlow = false
  const { webhooks } = await setup({
    async all() {
      const now = [...stored.values()]
      if (isSlow) await new Promise<void>((resolve) => reads.push(resolve))
      return now
    },
    async add(webhook) {
      stored.set(webhook.id, webhook)
      return true
    },
    remove: async (id) => void stored.delete(id),
    pending: async () => new Map(),
  })
  const add = () => webhooks.create({ url: 'https://example.org/', events: ['listing'], secret: 'x'.repeat(32) })
  const known = async () => (await webhooks.list()).filter(({ source }) => source === 'api').map(({ id }) => id)
  const removed = await add()
  isSlow = true
  const reloaded = webhooks.reload()
  await until(() => reads.length === 1)
  const changed = Promise.all([add(), webhooks.remove(removed.id)])
  // A change that does not wait for the read is stored by then.
  await new Promise((resolve) => setImmediate(resolve))
  for (const answer of reads) answer()
  await reloaded
  const [added] = await changed
  expect(await known()).toEqual([added.id])
})
