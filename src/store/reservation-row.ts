import type { UnixMs } from '../lib/clock.ts'
import { CHANNEL_SCHEME } from '../schema/channel.ts'
import type { PaymentEnvelope, PaymentRequirements } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import { type AuthorizationRow, authorizationOf } from './authorization-row.ts'
import { toHex } from './hex.ts'
import { type Metered, unpackMetered } from './metered-row.ts'
import type { Expense } from './spending.ts'

/** A signature of this node, stored before it is sent. */
export type Reservation = {
  paymentId: Hex
  orderId: string
  agentId: string
  sellerId: string
  requirements: PaymentRequirements
  envelope: PaymentEnvelope
  amount: bigint
  validBeforeSeconds: number
  /**
   * True if the seller settles before its agent runs: the seller announced it, or the window allows nothing else (D45).
   */
  settlesFirst?: boolean | undefined
  /** The channel that pays. Then `amount` is the most that the call may cost, and what it has cost once it is spent. */
  channel?: Hex | undefined
  /** Set for a call of a metered agent: the prices that it was bought under, and what it has used. */
  metered?: Metered | undefined
}
/** Names a reservation: an order has at most one, for ever. */
export type ReservationOf = Pick<Reservation, 'orderId'>
/** `reserved`: may still be settled. `spent`: bought something or was settled. `released`: can never be settled. */
export type ReservationState = 'reserved' | 'spent' | 'released'
export type StoredReservation = Reservation & {
  state: ReservationState
  /** The agent's name at the time of the order. */
  agentName?: string | undefined
  /** Reported by the seller, unless `confirmation` is `chain`. */
  txHash: Hex | undefined
  confirmation: Confirmation
  /** The transaction in which the seller refunded the purchase, as the chain shows. */
  refundTx?: Hex | undefined
  createdAt: UnixMs
  updatedAt: UnixMs
}
/** Whether the chain shows the transfer (D41). `unavailable`: this node has no RPC. */
export type Confirmation = 'chain' | 'awaited' | 'unavailable'

export type ReservationRow = {
  order_no: number
  order_id: string
  agent_name: string | null
  payment_id: Uint8Array
  agent_id: string
  seller_id: string
  state: ReservationState
  challenge_nonce: Uint8Array | null
  day: string
  tx_hash: Uint8Array | null
  confirmed_at: number | null
  settles_first: number | null
  refund_tx: Uint8Array | null
  channel_id: string | null
  metered: string | null
  created_at: number
  updated_at: number
} & AuthorizationRow

/** Selects every reservation. Callers append a condition. */
export const RESERVATIONS =
  'SELECT o.id AS order_id, o.agent_name, c.id AS channel_id, a.* FROM authorizations a JOIN orders o ON o.no = a.order_no LEFT JOIN buyer_channels c ON c.no = a.channel'

/** SQL for the reservation of an order. No index has payment ids: each purchase would pay for it. */
export const ofOrder = (id = '?') => `order_no = (SELECT no FROM orders WHERE id = ${id})`

/** What a change of a reservation returns of it. */
export const CHANGED = `
  order_no, day, seller_id, amount, (SELECT id FROM orders WHERE no = order_no) AS order_id,
  (SELECT token_id FROM orders WHERE no = order_no) AS token_id`
export type ChangedRow = Pick<ReservationRow, 'order_no' | 'order_id' | 'day' | 'seller_id' | 'amount'> & {
  token_id: string | null
}

/** The sums that a reservation counts in. */
export function expenseOf({ day, seller_id, token_id }: Pick<ChangedRow, 'day' | 'seller_id' | 'token_id'>): Expense {
  return { day, sellerId: seller_id, tokenId: token_id ?? undefined }
}

/** What the end of an order has made of its payment. */
export type StoredEnd = Pick<StoredReservation, 'state' | 'confirmation' | 'amount'>
export type SpentRow = Pick<ReservationRow, 'confirmed_at'>

export function confirmationOf(row: SpentRow, hasChain: boolean): Confirmation {
  if (row.confirmed_at !== null) return 'chain'
  return hasChain ? 'awaited' : 'unavailable'
}

export function toReservation(row: ReservationRow, hasChain: boolean): StoredReservation {
  const { requirements, signed } = authorizationOf(row)
  return {
    paymentId: toHex(row.payment_id),
    orderId: row.order_id,
    agentId: row.agent_id,
    sellerId: row.seller_id,
    ...(row.agent_name !== null && { agentName: row.agent_name }),
    state: row.state,
    requirements,
    envelope: {
      x402_version: 2,
      scheme: row.channel_id === null ? requirements.scheme : CHANNEL_SCHEME,
      network: requirements.network,
      server_nonce: row.challenge_nonce === null ? 'preemptive' : toHex(row.challenge_nonce),
      payer: signed.authorization.from,
      // A call on a channel has no signature of its own.
      ...(row.channel_id === null && { payload: signed }),
    },
    amount: requirements.amount,
    validBeforeSeconds: row.valid_before_s,
    ...(row.settles_first === 1 && { settlesFirst: true }),
    ...(row.channel_id !== null && { channel: row.channel_id as Hex }),
    ...(row.metered !== null && { metered: unpackMetered(row.metered) }),
    txHash: row.tx_hash === null ? undefined : toHex(row.tx_hash),
    confirmation: confirmationOf(row, hasChain),
    ...(row.refund_tx !== null && { refundTx: toHex(row.refund_tx) }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
