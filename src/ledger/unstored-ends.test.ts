import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { listingFixture, localId } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { until } from '../../test/support/until.ts'
import { AgentError } from '../agents/runtime.ts'
import type { Buyer } from '../buying/buyer.ts'
import { silentLogger } from '../lib/logger.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { createPurchases } from '../store/purchases.ts'
import { withUnstoredEnds } from './unstored-ends.ts'

/** SQLite calls a database full that may not grow, as on a full disk. What is long fits in no page that it has. */
const long = 'x'.repeat(500_000)
let database: Database
let buyer: Buyer
const setPagesMax = (pages: number) => void database.prepare(`PRAGMA max_page_count = ${pages}`).get()
const fill = () => setPagesMax(1)
const free = () => setPagesMax(1_000_000)
/** The orders that were measured, each with its latency. */
const measured: unknown[] = []

beforeEach(async () => {
  database = openDatabase({ path: ':memory:' })
  buyer = createFakeMarket(() => [listingFixture({ id: localId, local: true, price: 0n })], {
    database,
    measures: { ended: ({ status }, latencyMs) => void measured.push([status, latencyMs]), settled: () => {} },
    runOwn: async (_id, { input }) => {
      fill()
      if (input.startsWith('fail')) throw new AgentError('AGENT_FAILED', long)
      return long
    },
  })
  for (const service of buyer.services) await service.start()
})
afterEach(async () => {
  measured.length = 0
  for (const service of buyer.services.toReversed()) await service.stop()
})

describe('when the disk is full as an order ends', () => {
  test.each([
    ['work', 'completed'],
    ['fail', 'failed'],
  ])('and its agent had to %s, the order ends as soon as there is room, with no restart', async (task, status) => {
    const { id } = await buyer.orders.create({ agentId: localId, price: 1n, task })
    await until(async () => (await buyer.orders.get(id)).status === 'executing')
    expect((await buyer.orders.settled(id, { limitMs: 300 })).status).toBe('executing')
    free()
    expect((await buyer.orders.settled(id, { limitMs: 20_000 })).status).toBe(status)
    // The time until there was room says nothing about the seller.
    expect(measured).toEqual([[status, undefined]])
  })

  test('its workflow goes on as soon as there is room', async () => {
    const step = {
      id: 'a',
      agentId: localId,
      input: 'work',
      dependsOn: [],
      maxPrice: undefined,
      retries: 0,
      fallback: [],
    }
    const { id } = await buyer.workflows.create({ name: undefined, input: 'x', steps: [step], budget: undefined })
    expect((await buyer.workflows.settled(id, { limitMs: 300 })).status).not.toBe('completed')
    free()
    expect((await buyer.workflows.settled(id, { limitMs: 30_000 })).status).toBe('completed')
  })

  test('a free result names no order, as none was stored; later it is there', async () => {
    const result = await buyer.execute({ agentId: localId, input: 'work', signal: AbortSignal.timeout(10_000) })
    expect(result).toMatchObject({ output: long, payment: null })
    expect(result).not.toHaveProperty('order_id')
    free()
    const stored = await until(async () => (await buyer.orders.list({ limit: 1 })).items[0])
    expect(stored).toMatchObject({ status: 'completed', correlation_id: result.correlation_id })
  })
})

const order = {
  ...{ id: 'o-1', agentId: localId, sellerId: undefined, price: 1n, task: 'x', output: undefined, error: undefined },
  ...{ correlationId: undefined, createdAt: 1, updatedAt: 1, status: 'executing' as const },
}

test('T23 a result that could not be stored is not lost to a failure that is told of its order before there was a retry', async () => {
  const real = createPurchases(database)
  const { purchases } = withUnstoredEnds(real, { logger: silentLogger, changed: () => {} })
  await purchases.finish(order)
  fill()
  await expect(purchases.finish({ ...order, status: 'completed', output: long })).rejects.toMatchObject({
    name: 'StoreError',
  })
  free()
  const error = { code: 'SELLER_FAILED', message: 'the seller knows nothing of it', retryable: false }
  await purchases.finish({ ...order, status: 'failed', error })
  expect(await purchases.order('o-1')).toMatchObject({ status: 'completed', output: long, error: undefined })
})

test('an end that the store will never take is not said to be stored', async () => {
  vi.useFakeTimers()
  try {
    const full = Object.assign(new Error('disk full'), { name: 'StoreError' })
    const errors = [full, new Error('no such column')]
    const said: string[] = []
    const logger = { ...silentLogger, info: () => void said.push('info'), error: () => void said.push('error') }
    const failing = { ...createPurchases(database), finish: () => Promise.reject(errors.shift()) }
    const changed = () => void said.push('changed')
    const { purchases, service } = withUnstoredEnds(failing, { logger, changed })
    await expect(purchases.finish(order)).rejects.toBe(full)
    await service.start()
    await vi.advanceTimersByTimeAsync(2_000)
    await service.stop()
    expect(said).toEqual(['error'])
  } finally {
    vi.useRealTimers()
  }
})
