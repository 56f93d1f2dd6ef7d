/**
 * T5 T16 T17: processes that share a ledger die under calls, as does their database, and commits are refused. The chain
 * is the judge. `npm run chaos -- --fleet` does more of it.
 */
import { expect, test } from 'vitest'
import { type FleetOptions, runFleet } from '../chaos/fleet.ts'

async function run(options: Omit<FleetOptions, 'tell' | 'seed'>) {
  const lines: string[] = []
  const report = await runFleet({ seed: 1, ...options, tell: (line) => void lines.push(line) })
  expect(report.violations, lines.join('\n')).toEqual([])
  return report
}

test('of a seller whose processes are killed under 64 calls at once, no call runs twice and none is charged in vain', async () => {
  const report = await run({
    ...{ sellers: 3, buyers: 1, calls: 128, atOnce: 64, affordable: 128 },
    ...{ sellerKills: 1, buyerKills: 0, pauseMs: 0, databaseKills: 1, cuts: 4, refusedShare: 0.03 },
  })
  expect(report.kills).toBe(3)
  expect([report.cuts > 0, report.refused > 0]).toEqual([true, true])
  expect(report.sums.charged).toBeGreaterThan(32)
}, 900_000)

test('D33 D38 of a buyer whose processes are killed, 60 purchases at once never pass the budget, and none is made twice', async () => {
  const report = await run({
    ...{ sellers: 1, buyers: 3, calls: 60, atOnce: 60, affordable: 40 },
    ...{ sellerKills: 0, buyerKills: 1, pauseMs: 0, databaseKills: 0, cuts: 2, refusedShare: 0.03 },
  })
  expect(report.kills).toBe(3)
  // Money that was held for a call that failed is free again after others were refused.
  expect(report.sums.charged).toBeGreaterThan(20)
}, 900_000)
