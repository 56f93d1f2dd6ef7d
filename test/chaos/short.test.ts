import { expect, test } from 'vitest'
import { runChaos } from './run.ts'

/**
 * Runs one seed for about 20 s, and does not wait for payments that are in doubt at the end. `npm run chaos` does long
 * runs.
 */
test('a market of processes under faults keeps its promises, with the chain as judge (T4, T16, T17)', async () => {
  const lines: string[] = []
  const options = { seed: 1, durationMs: 20_000, settleMs: 15_000, tell: (line: string) => void lines.push(line) }
  const { violations, sums, faults } = await runChaos(options)
  expect(violations, lines.join('\n')).toEqual([])
  expect(faults).toBeGreaterThan(4)
  expect(sums.charged).toBeGreaterThan(0)
}, 300_000)
