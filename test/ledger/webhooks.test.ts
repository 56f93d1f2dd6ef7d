import { beforeEach, expect, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createWebhookStore, type WebhookStore } from '../../src/store/webhooks.ts'
import { onBothEngines } from '../support/ledgers.ts'

const now = Date.UTC(2026, 0, 1)
const LEASE_MS = 30_000
let webhooks: WebhookStore

let count = 0
const webhook = (id = `hook-${++count}`) => ({
  id,
  url: 'https://example.org/',
  events: ['order', 'payment'],
  secret: 's',
  createdAt: now,
})
const message = (webhookId: string, at = now) => ({ id: `message-${++count}`, webhookId, body: '{"é":1}', now: at })
const lease = (at = now) => ({ now: at, until: at + LEASE_MS })
const stores = (databases: readonly LedgerDatabase[]) => databases.map(createWebhookStore)

onBothEngines((open, openTwo) => {
  beforeEach(async () => {
    // By the clock of the database, the times of these tests are long past.
    webhooks = createWebhookStore({ ...(await open()), time: undefined })
  })

  test('a webhook reads back as it was added, and takes its messages along', async () => {
    const made = webhook()
    expect(await webhooks.add(made, 10)).toBe(true)
    expect(await webhooks.all()).toEqual([made])
    await webhooks.enqueue([message(made.id)], 10)
    await webhooks.remove(made.id)
    expect([await webhooks.all(), await webhooks.pending()]).toEqual([[], new Map()])
  })

  test('T19: two that are added at the same instant never exceed the limit', async () => {
    const [first, second] = stores(await openTwo())
    const added = await Promise.all([first!.add(webhook(), 1), second!.add(webhook(), 1)])
    expect(added.sort()).toEqual([false, true])
  })

  test('T19: a market that changes a lot drops no message of another kind', async () => {
    const told = (type: string, no: number) => ({ ...message('a', now + no), body: JSON.stringify({ type, no }) })
    const messages = [
      told('payment.settled', 0),
      ...Array.from({ length: 4 }, (_, at) => told('listing.updated', at + 1)),
      told('order.failed', 5),
      told('listing.listed', 6),
      told('approval.pending', 7),
      told('payment.failed', 8),
    ]
    let dropped = 0
    for (const one of messages) dropped += (await webhooks.enqueue([one], 3)).get('a') ?? 0
    const left: unknown[] = []
    for (let due = await webhooks.take('a', lease(now + 10)); due !== undefined; ) {
      left.push(JSON.parse(due.body).type)
      await webhooks.done(due.no)
      due = await webhooks.take('a', lease(now + 10))
    }
    // Without a listing among them, the oldest goes.
    expect([dropped, left]).toEqual([6, ['order.failed', 'approval.pending', 'payment.failed']])
  })

  test('a message is due in its turn, and not before its time', async () => {
    const [one, two] = [message('a', now + 5), message('a', now)]
    await webhooks.enqueue([one, two, message('b')], 10)
    expect(await webhooks.dueInMs('a', now)).toBe(0)
    const due = await webhooks.take('a', lease())
    expect(due).toEqual({
      no: due!.no,
      id: two.id,
      webhookId: 'a',
      body: two.body,
      attempts: 0,
      leasedUntil: now + LEASE_MS,
    })
    expect(await webhooks.take('a', lease())).toBeUndefined()
    await webhooks.done(due!.no)
    expect(await webhooks.dueInMs('a', now)).toBe(5)
    expect(await webhooks.dueInMs('none', now)).toBeUndefined()
    expect(await webhooks.pending()).toEqual(
      new Map([
        ['a', 1],
        ['b', 1],
      ]),
    )
  })

  test('of two processes that take a message at the same instant, one has it', async () => {
    const [first, second] = stores(await openTwo())
    await first!.enqueue([message('a')], 10)
    const taken = await Promise.all([first!.take('a', lease()), second!.take('a', lease())])
    expect(taken.filter((each) => each !== undefined)).toHaveLength(1)
  })

  test('while a process sends a message, none takes the next one of that webhook: they keep their order', async () => {
    const [first, second] = stores(await openTwo())
    await first!.enqueue([message('a', 1), message('a', 1), message('b', 1)], 10)
    const taken = await Promise.all([first!.take('a', lease()), second!.take('a', lease())])
    const [sent] = taken.filter((each) => each !== undefined)
    expect(taken.filter((each) => each !== undefined)).toHaveLength(1)
    expect(await second!.take('b', lease())).toBeDefined()
    expect(await first!.dueInMs('a', now)).toBeGreaterThan(LEASE_MS / 2)
    await first!.done(sent!.no)
    const [next] = [await second!.take('a', lease())]
    expect(next!.no).toBeGreaterThan(sent!.no)
  })

  test('an event is queued once for each webhook, whichever process queues it', async () => {
    const [first, second] = stores(await openTwo())
    const of = (webhookId: string) => ({ ...message(webhookId), event: 'life-1' })
    await Promise.all([first!.enqueue([of('a'), of('b')], 10), second!.enqueue([of('a')], 10)])
    expect(await first!.pending()).toEqual(
      new Map([
        ['a', 1],
        ['b', 1],
      ]),
    )
  })

  test('whoever slept through the lease of a message delays no other attempt', async () => {
    await webhooks.enqueue([message('a')], 10)
    const slow = await webhooks.take('a', lease())
    const later = now + LEASE_MS
    const next = await webhooks.take('a', lease(later))
    expect(next?.id).toBe(slow!.id)
    await webhooks.retry(slow!, { now: later, waitMs: 1 })
    await webhooks.giveBack(slow!, now)
    expect(await webhooks.dueInMs('a', later)).toBe(LEASE_MS)
    await webhooks.retry(next!, { now: later, waitMs: 5 })
    expect(await webhooks.take('a', lease(later + 5))).toMatchObject({ id: slow!.id, attempts: 1 })
  })

  test('the clock of a shared ledger decides, whatever the clocks of its processes say', async () => {
    const [database] = await openTwo()
    if (database!.time === undefined) return
    const shared = createWebhookStore(database!)
    const ahead = Date.now() + 60 * 60 * 1000
    await shared.enqueue([message('a', ahead)], 10)
    expect(await shared.take('a', lease(now))).toBeDefined()
    expect(await shared.take('a', lease(ahead))).toBeUndefined()
  })

  test('a message that is given back is due again, without an attempt', async () => {
    await webhooks.enqueue([message('a')], 10)
    await webhooks.giveBack((await webhooks.take('a', lease()))!, now)
    expect(await webhooks.take('a', lease())).toMatchObject({ attempts: 0 })
  })

  test('T19: the queue of a webhook is bounded, and the oldest message makes room', async () => {
    const messages = Array.from({ length: 4 }, () => message('a'))
    expect(await webhooks.enqueue([...messages, message('b')], 3)).toEqual(new Map([['a', 1]]))
    expect(await webhooks.enqueue([message('a')], 3)).toEqual(new Map([['a', 1]]))
    expect((await webhooks.take('a', lease()))?.id).toBe(messages[2]!.id)
    expect((await webhooks.pending()).get('a')).toBe(3)
  })

  test('messages are kept of the webhooks that are registered, or configured', async () => {
    const made = webhook()
    await webhooks.add(made, 10)
    await webhooks.enqueue([message(made.id), message('configured'), message('gone')], 10)
    await webhooks.keepOnly(['configured', 'other'])
    expect([...(await webhooks.pending()).keys()].sort()).toEqual(['configured', made.id].sort())
    await webhooks.keepOnly([])
    expect([...(await webhooks.pending()).keys()]).toEqual([made.id])
  })
})
