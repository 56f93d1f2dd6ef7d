import type { Hex } from '../schema/primitives.ts'
import type { NewExchange } from './exchanges.ts'
import type { PaymentState, StoredPayment } from './payment-row.ts'
import type { Order } from './purchases.ts'
import type { ReservationState } from './reservation-row.ts'

/** A change of a received payment. */
export type PaymentChange = {
  record: 'payment'
  id: Hex
  /**
   * `open`: authorized or owed. Undefined: the payment is new; a call on a channel is new when it has ended. Equal to `to`: only
   * details changed.
   */
  from: PaymentState | 'open' | undefined
  to: PaymentState
  /** The payment before a change that undid its final state. */
  before?: StoredPayment | undefined
  /** The payment after the change that gave it up. */
  after?: StoredPayment | undefined
}

/** A run of an agent of this node is stored. */
type ExecutionChange = {
  record: 'execution'
  execution: NewExchange
  /** The payment before and after the change, if the run was stored apart from its payment. */
  before?: StoredPayment | undefined
  after?: StoredPayment | undefined
}

/** A change of the payment of an order of this node. */
export type ReservationChange = {
  record: 'reservation'
  orderId: string
  /** Undefined: the reservation is new. Equal to `to`: only details changed. */
  from: ReservationState | undefined
  to: ReservationState
  /** True: the chain shows the transfer from this change on. False: a reorganization took it back. */
  isShown?: boolean
  /** What was paid to whom, if the change itself knows it. */
  paid?: { agentId: string; amount: bigint } | undefined
}

/** One change of the ledger, reported once it is on disk. */
export type LedgerChange =
  | PaymentChange
  | ExecutionChange
  | ReservationChange
  /** `ended`: the order, if the change ended it. */
  | { record: 'order'; id: string; ended?: Order }
  /** A buyer will be told to ask again for the result of this payment (2007). */
  | { record: 'deferral'; id: Hex }
  /** Payments were voided at start, because the end of the process had interrupted their runs. */
  | { record: 'interruption'; payments: number }

export type LedgerListener = (change: LedgerChange) => void
