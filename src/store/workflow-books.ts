import type { Database } from './database.ts'
import { IS_HELD } from './held.ts'

/** The amounts signed for a workflow, by book (D42). */
export type WorkflowBooks = { paid: bigint; held: bigint; notCharged: bigint }

/** Follows the same rules as `madeBook`. */
const BOOKS = `
  SELECT a.state = 'released' AS released, NOT (${IS_HELD}) AS paid,
    CAST(sum(a.amount) AS TEXT) AS amount
  FROM orders o JOIN authorizations a ON a.order_no = o.no WHERE o.workflow_id = ? GROUP BY 1, 2`

export function workflowBooks(database: Database, id: string): WorkflowBooks {
  const books: WorkflowBooks = { paid: 0n, held: 0n, notCharged: 0n }
  const rows = database.all<{ released: number; paid: number; amount: string }>(BOOKS, id)
  for (const { released, paid, amount } of rows) {
    books[released === 1 ? 'notCharged' : paid === 1 ? 'paid' : 'held'] += BigInt(amount)
  }
  return books
}
