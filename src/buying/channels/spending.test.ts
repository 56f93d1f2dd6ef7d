import { expect, test } from 'vitest'
import { Spending } from './spending.ts'

const ID = '0x01'

test('what calls have cost within a minute is that of the running one, or of the one before', () => {
  const spending = new Spending()
  const looks: [seconds: number, owed: bigint, lately: bigint][] = [
    [0, 100n, 0n],
    [30, 150n, 50n],
    [60, 190n, 90n],
    [70, 195n, 90n],
    // A call that failed is not owed.
    [80, 180n, 90n],
    [119, 300n, 110n],
    [121, 310n, 120n],
    // Nothing was asked for two minutes.
    [300, 320n, 0n],
    [301, 321n, 1n],
  ]
  for (const [seconds, owed, lately] of looks) expect(spending.lately(ID, owed, seconds * 1_000)).toBe(lately)
})
