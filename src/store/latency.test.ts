import { expect, onTestFinished, test, vi } from 'vitest'
import { openDatabase } from './database.ts'
import { measured } from './latency.ts'
import { nothing, one } from './query.ts'
import { StoreError } from './store-error.ts'

test('what callers waited for is told apart by reads and changes, failures included', async () => {
  const { database, latency } = measured(openDatabase({ path: ':memory:' }))
  expect(latency()).toEqual({ read: undefined, change: undefined, refused: undefined })
  expect(await database.query(one('SELECT 1 AS one'))).toEqual({ one: 1 })
  await expect(database.query(one('SELECT nothing'))).rejects.toThrow()
  await database.commit(nothing(undefined))
  const { read, change } = latency()
  expect([read?.count, change?.count]).toEqual([2, 1])
  expect(read!.p50Ms).toBeLessThanOrEqual(read!.p99Ms)
  await database.close()
})

test('only the last ones count', async () => {
  const { database, latency } = measured(openDatabase({ path: ':memory:' }))
  for (let asked = 0; asked < 600; asked += 1) await database.query(one('SELECT 1 AS one'))
  expect(latency().read?.count).toBe(512)
  await database.close()
})

test('a change that could not be written is remembered for a minute, and one that breaks a rule is not', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const ledger = openDatabase({ path: ':memory:' })
  let error = new StoreError('STORE_REFUSED', 'no')
  const { database, latency } = measured({ ...ledger, commit: () => Promise.reject(error) })
  await expect(database.commit(nothing(undefined))).rejects.toBe(error)
  expect(latency().refused).toBeUndefined()
  error = new StoreError('STORE_WRITE_FAILED', 'the disk is full')
  await expect(database.commit(nothing(undefined))).rejects.toBe(error)
  vi.advanceTimersByTime(59_000)
  expect(latency().refused).toBe(error)
  vi.advanceTimersByTime(2_000)
  expect(latency().refused).toBeUndefined()
  await ledger.close()
})
