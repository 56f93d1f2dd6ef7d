import type { Hold } from '../../lib/hold.ts'

/** What the payment of a caller waits for before it is checked. */
export type PaymentCheck = {
  /** Resolves when it is this caller's turn. The end of the block gives the turn to the next. */
  turn(): Promise<Hold>
  /** Called when the payment has settled, if this request brought it. */
  paid(): void
}
