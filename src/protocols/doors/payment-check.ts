import type { Hold } from '../../lib/hold.ts'

/** When the payment of a request is checked, and who hears what came of it. */
export type PaymentCheck = {
  /** Resolves when it is this caller's turn. The end of the block gives the turn to the next. */
  turn(): Promise<Hold>
  /** Called when the payment has settled, if this request brought it. */
  paid(): void
  /** Called for a payment that is good and did not settle. */
  unsettled(): void
  /** Called for a payment that buys nothing. */
  refused(): void
}
