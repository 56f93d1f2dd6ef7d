import { defined } from '../lib/defined.ts'
import { assetOf } from '../payments/assets.ts'
import { formatAmount } from '../schema/amount.ts'
import type { Book } from '../schema/book.ts'
import type { ExecutionPayment } from '../schema/execution-payment.ts'
import type { RecordedPayment } from '../schema/order.ts'
import type { Hex } from '../schema/primitives.ts'
import type { PaymentState } from '../store/payments.ts'
import type { Reservation, StoredReservation } from '../store/purchases.ts'
import type { ExchangePayment } from '../store/sessions.ts'

type PaymentFacts = Omit<ExchangePayment, 'state'> & Pick<Reservation, 'metered'>

/** The fields of a payment that do not depend on its outcome. */
export function paymentView(paid: PaymentFacts): Omit<ExecutionPayment, 'settlement'> {
  return {
    payment_id: paid.paymentId,
    network: paid.network,
    asset: paid.asset,
    amount: formatAmount(paid.amount, assetOf(paid.network)?.decimals ?? 0),
    amount_atomic: paid.amount.toString(),
    payer: paid.payer,
    pay_to: paid.payTo,
    tx_hash: paid.txHash ?? '',
    ...(paid.channel !== undefined && { channel_id: paid.channel }),
    ...defined({ units: paid.metered?.units, cut: paid.metered?.cut }),
  }
}

export function factsOf(reservation: Reservation, txHash: Hex | undefined): PaymentFacts {
  const { paymentId, requirements, envelope, amount, channel, metered } = reservation
  const { network, asset, payTo } = requirements
  return { paymentId, network, asset, amount, payer: envelope.payer, payTo, txHash, channel, metered }
}

/** A payment that this node signed, with its outcome. */
export function signedPayment(reservation: StoredReservation): RecordedPayment {
  const { state, txHash } = reservation
  const settlement = state === 'spent' ? boughtSettlement(reservation) : state
  const book = madeBook(reservation)
  const first = reservation.settlesFirst === true && { settles_first: true }
  return {
    ...paymentView(factsOf(reservation, txHash)),
    book,
    settlement,
    ...first,
    ...refundOf(reservation),
    ...noteOf(reservation),
  }
}

export function refundOf({ refundTx }: { refundTx?: Hex | undefined }): { refund_tx_hash?: Hex } {
  return refundTx === undefined ? {} : { refund_tx_hash: refundTx }
}

/** Classifies a payment of this node in the books (D42). Only the chain's confirmation makes it `paid`. */
export function madeBook(made: Pick<StoredReservation, 'state' | 'confirmation' | 'refundTx'>): Book {
  const { state, confirmation, refundTx } = made
  if (refundTx !== undefined) return 'refunded'
  if (state === 'released') return 'not_charged'
  return confirmation === 'chain' ? 'paid' : 'held'
}

/** Classifies a payment to this node in the books. `ran`: true if the agent did its work. */
export function receivedBook({
  state,
  ran,
  refundTx,
}: {
  state: PaymentState
  ran: boolean
  refundTx?: Hex | undefined
}): Book {
  if (refundTx !== undefined) return 'refunded'
  if (state === 'unsettled') return ran ? 'lost' : 'refused'
  return ({ authorized: 'held', owed: 'owed', settled: 'earned', voided: 'not_charged' } as const)[state]
}

/** What is known about the settlement of a purchase: the chain's confirmation, the seller's claim, or nothing (D41). */
export function boughtSettlement({
  txHash,
  confirmation,
}: Pick<StoredReservation, 'txHash' | 'confirmation'>): ExecutionPayment['settlement'] {
  if (confirmation === 'chain') return 'settled'
  return txHash === undefined ? 'pending' : 'claimed'
}

export function noteOf({
  state,
  confirmation,
}: Pick<StoredReservation, 'state' | 'confirmation'>): Pick<ExecutionPayment, 'settlement_note'> {
  if (confirmation !== 'unavailable' || state === 'released') return {}
  return { settlement_note: 'this node has no RPC, so the chain is not asked: set ETHEREUM_RPC_URL or --rpc-url' }
}
