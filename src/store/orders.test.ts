import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from './database.ts'

test.each(['pending', 'executing', 'failed', 'cancelled'] as const)(
  'finds what is %s by an index, without sorting',
  (status) => {
    const database = openDatabase({ path: ':memory:' })
    onTestFinished(() => database.close())
    const { where } = {
      where: status === 'pending' || status === 'executing' ? `('pending', 'executing')` : `('failed', 'cancelled')`,
    }
    const plan = database
      .prepare(
        `EXPLAIN QUERY PLAN SELECT * FROM orders WHERE status IN ${where} AND status = ? AND no < ? ORDER BY no DESC`,
      )
      .all(status, 1) as { detail: string }[]
    expect(plan.map(({ detail }) => detail)).toEqual([expect.stringMatching(/^SEARCH orders USING INDEX orders_/)])
  },
)
