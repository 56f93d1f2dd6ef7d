/** Buyers of several processes over one ledger. */
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { Buyer } from '../../src/buying/buyer.ts'
import { createLedger, openRecords } from '../../src/ledger/ledger.ts'
import { type NodeFeed, publishLedger } from '../../src/ledger/ledger-feed.ts'
import { createTail } from '../../src/ledger/tail.ts'
import { Feed } from '../../src/lib/feed.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { CreateWorkflow } from '../../src/schema/workflow.ts'
import { createChangeLog } from '../../src/store/postgres/change-log.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { listingFixture } from '../support/fake-api.ts'
import { fakeMarket } from '../support/fake-market.ts'
import { startPostgresProxy } from '../support/postgres-proxy.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

type RunOwn = NonNullable<Parameters<typeof fakeMarket>[1]>['runOwn']
type Process = { buyer: Buyer; feed: NodeFeed }
const own: Listing = listingFixture({ id: 'own', local: true, price: 0n, price_atomic: '0' })

/** A process with a buyer, which follows the others. */
async function startProcess(address: string, runOwn?: RunOwn): Promise<Process> {
  const database = await openPostgres({ address })
  const namesOf = (id: string) => (id === own.id ? own : undefined)
  const ledger = createLedger(openRecords(database, { hasChain: false }), { logger: silentLogger, namesOf })
  const feed: NodeFeed = new Feed({ life: randomUUID().slice(0, 8) })
  const tail = createTail({ log: createChangeLog(database), logger: silentLogger })
  publishLedger(feed, { ledger, tail }, namesOf)
  await tail.start()
  const buyer = await fakeMarket(() => [own], { database, ledger, feed, tail, ...(runOwn && { runOwn }) })
  onTestFinished(async () => {
    for (const service of buyer.services.toReversed()) await service.stop()
    await tail.stop()
    await database.close()
  })
  return { buyer, feed }
}

async function databaseOf() {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  return database
}

/** An agent that runs until it is told to end, or is canceled. */
function held() {
  const { promise: end, resolve } = Promise.withResolvers<void>()
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const seen = { runs: 0, wasCanceled: false }
  const runOwn: RunOwn = async (_id, { input, signal }) => {
    seen.runs += 1
    begin()
    const gone = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => {
      seen.wasCanceled = true
      gone.reject(signal.reason)
    })
    await Promise.race([end, gone.promise])
    return input.toUpperCase()
  }
  return { runOwn, begun, end: resolve, seen }
}

test('D38: a repeated request at another process waits for the run, and gets its result', async () => {
  const address = (await databaseOf()).address()
  const agent = held()
  const first = await startProcess(address, agent.runOwn)
  const second = await startProcess(address, agent.runOwn)
  const request = { agentId: own.id, input: 'once', idempotencyKey: 'key', signal: AbortSignal.timeout(60_000) }
  const runs = first.buyer.execute(request)
  await agent.begun
  const again = second.buyer.execute(request)
  const { items } = await second.buyer.orders.list({ limit: 5 })
  const settled = second.buyer.orders.settled(items[0]!.id, { limitMs: 60_000 })
  agent.end()
  expect((await runs).output).toBe('ONCE')
  expect((await again).output).toBe('ONCE')
  expect((await settled).status).toBe('completed')
  expect(agent.seen.runs).toBe(1)
})

test('an order that runs at one process is canceled at another', async () => {
  const address = (await databaseOf()).address()
  const agent = held()
  const [first, second] = [await startProcess(address, agent.runOwn), await startProcess(address)]
  const order = await first.buyer.orders.create({ agentId: own.id, price: 10_000n, task: 'stop me' })
  await agent.begun
  expect((await second.buyer.orders.cancel(order.id)).status).toBe('cancelled')
  expect(agent.seen).toEqual({ runs: 1, wasCanceled: true })
})

test('a task that is given at one process is done once, and each process publishes every change', async () => {
  const address = (await databaseOf()).address()
  const [first, second] = [await startProcess(address), await startProcess(address)]
  const seen = [first, second].map(({ feed }) => {
    const states: string[] = []
    const follow = async () => {
      for await (const event of feed.subscribe({ types: ['order'] })) {
        const data = event.type === 'order' ? await event.read() : undefined
        if (data !== undefined) states.push(data.status)
      }
    }
    void follow()
    return states
  })
  const own2 = second.feed.subscribe({ types: ['order'], hereOnly: true })
  const order = await first.buyer.orders.create({ agentId: own.id, price: 10_000n, task: undefined })
  await until(() => seen[1]!.length > 0)
  await second.buyer.orders.execute(order.id, 'now')
  await until(() => seen.every((states) => states.at(-1) === 'completed'))
  const { value } = await own2.next()
  expect(value).toMatchObject({ type: 'order', origin: 'here' })
  expect((await first.buyer.orders.get(order.id)).output).toBe('NOW')
  for (const { feed } of [first, second]) feed.close()
})

test('a workflow is canceled at another process, and its caller there hears of its end', async () => {
  const address = (await databaseOf()).address()
  const agent = held()
  const [first, second] = [await startProcess(address, agent.runOwn), await startProcess(address)]
  const made = await first.buyer.workflows.create(CreateWorkflow.parse({ input: 'x', agent_ids: [own.id] }))
  await agent.begun
  const settled = first.buyer.workflows.settled(made.id, { limitMs: 60_000 })
  await second.buyer.workflows.cancel(made.id)
  expect((await settled).status).toBe('canceled')
  expect(agent.seen.wasCanceled).toBe(true)
})

test('what happens while the database is away from a process is told when it is back', async () => {
  const database = await databaseOf()
  const { host, port } = await testPostgres()
  const proxy = await startPostgresProxy({ host, port })
  onTestFinished(() => proxy.close())
  const first = await startProcess(database.address())
  const second = await startProcess(database.address(proxy.port))
  const told: string[] = []
  const follow = async () => {
    for await (const event of second.feed.subscribe({ types: ['order'] })) told.push(event.type)
  }
  void follow()
  proxy.onMessage(() => 'cut')
  proxy.cut()
  const order = await first.buyer.orders.create({ agentId: own.id, price: 10_000n, task: 'meanwhile' })
  await first.buyer.orders.settled(order.id, { limitMs: 10_000 })
  expect(told).toEqual([])
  proxy.onMessage(() => 'pass')
  await until(() => told.length > 0)
  expect(told).not.toContain('reset')
  second.feed.close()
})
