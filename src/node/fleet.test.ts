import { afterEach, expect, test, vi } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { watchFleet } from './fleet.ts'

afterEach(() => void vi.useRealTimers())

/** A fleet in which these processes have ended, as each look finds it. @returns how often their work was taken over */
async function takenOver(...looks: string[][]): Promise<number> {
  vi.useFakeTimers()
  let taken = 0
  const report = { version: '1', addresses: [], agents: [], running: 0, isDraining: false }
  const fleet = watchFleet({
    processes: {
      endDead: async () => looks.shift() ?? [],
      alive: async () => [],
      sight: async () => ({ alive: [], ended: [], roles: [] }),
      report: async () => 0,
      aheadMs: async () => 0,
    },
    logger: silentLogger,
    trading: { clockIs() {}, async shareFindings() {} },
    report: () => report,
    async takeOver() {
      taken += 1
    },
    changed: () => {},
    seen: () => {},
  })
  const count = looks.length
  await fleet.start()
  await vi.advanceTimersByTimeAsync(count * 3_000)
  await fleet.stop()
  return taken
}

test('T16 what a process left that ended between the start of this one and its first look is taken over', async () => {
  expect(await takenOver(['a'], ['a'])).toBe(1)
})

test('each process that has ended is taken over once', async () => {
  expect(await takenOver([], ['a'], ['a'], ['a', 'b'], ['b'])).toBe(2)
})
