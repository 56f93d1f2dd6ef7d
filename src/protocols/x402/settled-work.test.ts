import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { agentId, randomHex } from '../../../test/support/payments.ts'
import { TestSeller } from '../../../test/support/x402-seller.ts'
import { StoreError } from '../../store/store-error.ts'
import { SettledWork } from './settled-work.ts'

/** No other process sells anything. */
const alone = { sellersOf: () => [], chance: () => 0 }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('work that fails is run once, however much of it there is: the next run is for its buyer to ask for', async () => {
  const { deps } = new TestSeller()
  const ids = Array.from({ length: 10_100 }, () => randomHex())
  const ran: string[] = []
  const get = async (id: string) => {
    ran.push(id)
    return { id, agentId, peerId: 'p', correlationId: 'c' } as never
  }
  const unrun = async (limit: number, since?: number) => (since === undefined ? ids.slice(0, limit) : [])
  const work = new SettledWork({
    ...deps,
    ...alone,
    payments: { ...deps.payments, get },
    deferred: { ...deps.deferred, unrun },
  })
  await work.start()
  await vi.advanceTimersByTimeAsync(1_000)
  await work.stop()
  const times = [...Map.groupBy(ran, (id) => id).values()].map(({ length }) => length)
  expect(times.length).toBeGreaterThanOrEqual(10_000)
  // Looked up before its run and in it.
  expect(Math.max(...times)).toBe(2)
})

/** Settled work that is looked up through `get`, and how often each was. */
async function started(ids: readonly string[], get: (id: string, looks: number) => Promise<unknown>) {
  const { deps } = new TestSeller()
  const looked: string[] = []
  const work = new SettledWork({
    ...deps,
    ...alone,
    payments: {
      ...deps.payments,
      async get(id) {
        looked.push(id)
        return (await get(id, looked.filter((one) => one === id).length)) as never
      },
    },
    deferred: { ...deps.deferred, unrun: async () => ids as never },
  })
  await work.start()
  return { work, looked }
}
const away = () => new StoreError('STORE_AWAY', 'the database cannot be reached')

test.each([1, 2])('work that cannot be read at look %i is taken up when the ledger is back', async (failing) => {
  const { work, looked } = await started(['a'], async (id, looks) => {
    if (looks === failing) throw away()
    return { id, agentId, peerId: 'p', correlationId: 'c' }
  })
  await vi.advanceTimersByTimeAsync(1)
  expect(looked).toHaveLength(failing)
  await vi.advanceTimersByTimeAsync(5_000)
  expect(looked).toHaveLength(failing + 2)
  await work.stop()
})

test('the stop waits for all that is under way, also if one of it could not be read', async () => {
  const slow = Promise.withResolvers<void>()
  const { work } = await started(['a', 'b'], async (id) => {
    if (id === 'a') throw away()
    await slow.promise
  })
  await vi.advanceTimersByTimeAsync(1)
  let isStopped = false
  const stopped = work.stop().then(() => {
    isStopped = true
  })
  await vi.advanceTimersByTimeAsync(10)
  expect(isStopped).toBe(false)
  slow.resolve()
  await stopped
})

test('work whose run failed before the start waits for its buyer', async () => {
  const { work, looked } = await started(['a'], async (id) => {
    return { id, agentId, peerId: 'p', correlationId: 'c', failedRuns: { count: 1, lastAt: 0 } }
  })
  await vi.advanceTimersByTimeAsync(60_000)
  // Looked up once, and not run.
  expect(looked).toEqual(['a'])
  await work.stop()
})

test('settlements that come one after the other share a look, which comes soon', async () => {
  const { deps } = new TestSeller()
  let looks = 0
  const unrun = async () => {
    looks++
    return []
  }
  const work = new SettledWork({ ...deps, ...alone, deferred: { ...deps.deferred, unrun } })
  for (let settled = 0; settled < 100; settled++) {
    work.changed({ record: 'payment', id: randomHex(), from: 'open', to: 'settled' })
    await vi.advanceTimersByTimeAsync(10)
  }
  // Each look is late by 200 ms at most, also while payments go on settling.
  expect(looks).toBeGreaterThanOrEqual(4)
  expect(looks).toBeLessThanOrEqual(6)
  await vi.advanceTimersByTimeAsync(200)
  const all = looks
  work.changed({ record: 'deferral', id: randomHex() })
  await vi.advanceTimersByTimeAsync(1)
  expect(looks).toBe(all + 1)
  await work.stop()
})
