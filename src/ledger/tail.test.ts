import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { silentLogger } from '../lib/logger.ts'
import { createTail } from './tail.ts'

test('a process that keeps up has no lag between two looks, and one that cannot read has', async () => {
  let now = 0
  let looks = 0
  let isAway = false
  const read = async () => {
    looks += 1
    if (isAway) throw new Error('away')
    return { changes: [], isMissed: false, hasMore: false }
  }
  const tail = createTail({ log: { read, purge: async () => {} }, logger: silentLogger, now: () => now })
  await tail.start()
  onTestFinished(() => tail.stop())
  expect(tail.lagMs()).toBe(0)
  await until(() => looks > 2)
  now += 100
  expect(tail.lagMs()).toBe(0)
  isAway = true
  now += 60_000
  const before = looks
  await until(() => looks > before + 1)
  expect(tail.lagMs()).toBeGreaterThan(50_000)
  isAway = false
  await until(() => tail.lagMs() === 0)
})
