import { IS_HELD } from './held.ts'
import { all, type Query } from './query.ts'

/** The amounts signed for a workflow, by book (D42). */
export type WorkflowBooks = { paid: bigint; held: bigint; notCharged: bigint }

/** Follows the same rules as `madeBook`. */
const BOOKS = `
  SELECT CASE WHEN a.state = 'released' THEN 'notCharged' WHEN NOT (${IS_HELD}) THEN 'paid' ELSE 'held' END AS book,
    CAST(sum(a.amount) AS TEXT) AS amount
  FROM orders o JOIN authorizations a ON a.order_no = o.no WHERE o.workflow_id = ? GROUP BY 1`

export function workflowBooks(id: string): Query<WorkflowBooks> {
  return all<{ book: keyof WorkflowBooks; amount: string }>(BOOKS, id).map((rows) => {
    const books: WorkflowBooks = { paid: 0n, held: 0n, notCharged: 0n }
    for (const { book, amount } of rows) books[book] = BigInt(amount)
    return books
  })
}
