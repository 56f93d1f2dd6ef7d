import type { Book } from '../schema/book.ts'
import { IS_HELD, MAY_BE_HELD } from './held.ts'

/** Worded like the index of open payments, so that SQLite uses it. */
const OPEN = "state IN ('authorized', 'owed')"

/**
 * SQL conditions for the rows of each book (D42), by direction. A direction without rows is left out. Those of small books
 * name an index first: all other payments would be read to find a few.
 */
export const BOOK_ROWS: Readonly<Record<Book, { in?: string; out?: string }>> = {
  held: { in: `${OPEN} AND state = 'authorized'`, out: `${MAY_BE_HELD} AND ${IS_HELD}` },
  paid: { out: "a.state <> 'released' AND a.confirmed_at IS NOT NULL AND a.refund_tx IS NULL" },
  not_charged: { in: "state = 'voided'", out: "a.state = 'released'" },
  earned: { in: "state = 'settled' AND refund_tx IS NULL" },
  owed: { in: `${OPEN} AND state = 'owed'` },
  lost: { in: "state = 'unsettled' AND exchange_id IS NOT NULL" },
  refused: { in: "state = 'unsettled' AND exchange_id IS NULL" },
  refunded: { in: 'refund_tx IS NOT NULL', out: 'a.refund_tx IS NOT NULL' },
}
