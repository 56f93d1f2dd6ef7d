import type { Book } from '../schema/book.ts'

/** Which rows of either ledger stand under a word of the books (D42). A direction that has none is left out. */
export const BOOK_ROWS: Readonly<Record<Book, { in?: string; out?: string }>> = {
  held: { in: "state = 'authorized'", out: "a.state <> 'released' AND a.confirmed_at IS NULL AND a.refund_tx IS NULL" },
  paid: { out: "a.state <> 'released' AND a.confirmed_at IS NOT NULL AND a.refund_tx IS NULL" },
  not_charged: { in: "state = 'voided'", out: "a.state = 'released'" },
  earned: { in: "state = 'settled' AND refund_tx IS NULL" },
  owed: { in: "state = 'owed'" },
  lost: { in: "state = 'unsettled' AND exchange_id IS NOT NULL" },
  refused: { in: "state = 'unsettled' AND exchange_id IS NULL" },
  refunded: { in: 'refund_tx IS NOT NULL', out: 'a.refund_tx IS NOT NULL' },
}
