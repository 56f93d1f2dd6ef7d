import { expect, test } from 'vitest'
import { runChaos } from './run.ts'

/** One seed of some twenty seconds; what is in doubt at its end is not waited for. `npm run chaos` has the long ones. */
test('a market of processes under faults keeps its promises, with the chain as judge (T4, T16, T17)', async () => {
  const lines: string[] = []
  const options = { seed: 1, durationMs: 20_000, settleMs: 15_000, tell: (line: string) => void lines.push(line) }
  const { violations, sums, faults } = await runChaos(options)
  expect(violations, lines.join('\n')).toEqual([])
  expect(faults).toBeGreaterThan(4)
  expect(sums.charged).toBeGreaterThan(0)
}, 300_000)
