import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './database.ts'
import { one } from './query.ts'
import { RaisedSums } from './raised-sums.ts'
import { addSpending, type Expense, SUM_COLUMNS, type SumColumns, sumKeys } from './spending.ts'

const spent: Expense = { day: '2026-01-31', sellerId: 'a', tokenId: undefined }

/** Raises by 5 and by 3, each within its limit of the day, after others have spent `meanwhile`. */
async function raised(limits: readonly [bigint, bigint], meanwhile: bigint): Promise<boolean> {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const sums = new RaisedSums()
  sums.read(spent, (await database.query(one<SumColumns>(`SELECT ${SUM_COLUMNS}`, ...sumKeys(spent))))!)
  sums.raise(spent, 5n, { day: limits[0] })
  sums.raise(spent, 3n, { day: limits[1] })
  await database.commit(addSpending(spent, meanwhile))
  return database.commit(sums.write())
}

test.each([
  ['the first', [10n, 100n]],
  ['the second', [100n, 10n]],
] as const)('D33 of two limits of one sum the lower one holds: that of %s purchase', async (_, limits) => {
  expect(await raised(limits, 2n)).toBe(true)
  expect(await raised(limits, 3n)).toBe(false)
})
