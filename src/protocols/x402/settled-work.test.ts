import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { randomHex } from '../../../test/support/payments.ts'
import { TestSeller } from '../../../test/support/x402-seller.ts'
import { SettledWork } from './settled-work.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('work that fails is run once, however much of it there is: the next run is for its buyer to ask for', async () => {
  const { deps } = new TestSeller()
  const ids = Array.from({ length: 10_100 }, () => randomHex())
  const ran: string[] = []
  const get = async (id: string) => {
    ran.push(id)
    return { id, peerId: 'p', correlationId: 'c' } as never
  }
  const unrun = async (limit: number, since?: number) => (since === undefined ? ids.slice(0, limit) : [])
  const work = new SettledWork({
    ...deps,
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
