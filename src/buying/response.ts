import { isUtf8 } from 'node:buffer'
import type { Logger } from '../lib/logger.ts'
import { peerNamed } from '../p2p/did.ts'
import { checkReceipt } from '../payments/receipt.ts'
import type { ReceivedResponse } from '../protocols/x402/answers.ts'
import type { Hex } from '../schema/primitives.ts'
import type { PurchasePayment, Reservation } from '../store/purchases.ts'

/** The content of a response: text, and also the bytes if they are not valid UTF-8. */
export type Delivery = {
  output: string
  outputBytes: Uint8Array | undefined
  /** What was missing or unexpected in the response. */
  notes: readonly string[]
  txHash: Hex | undefined
}

/** Decodes the result. The body is the seller's data and is treated as text (T10). */
export function readResponse({ body, tx_hash, oddities }: ReceivedResponse): Delivery {
  const bytes = Buffer.from(body, 'base64')
  return {
    output: bytes.toString('utf8'),
    outputBytes: isUtf8(bytes) ? undefined : bytes,
    notes: oddities,
    txHash: tx_hash === '' ? undefined : tx_hash,
  }
}

/** Lists everything unexpected in the response to a payment. */
export function notesOf(
  { payment_id, seller_did }: ReceivedResponse,
  { paymentId, sellerId }: Pick<Reservation, 'paymentId' | 'sellerId'>,
  { notes }: Delivery,
): readonly string[] {
  const named = peerNamed(seller_did)
  return [
    ...notes,
    ...(payment_id === '' || payment_id.toLowerCase() === paymentId
      ? []
      : [`payment_id is that of another payment: ${payment_id}`]),
    ...(named === undefined || named === sellerId ? [] : [`seller_did is that of another peer: ${seller_did}`]),
  ]
}

/** Reads the payment details from a response: the transaction, and the receipt if it is valid. */
export function paidFor(
  response: ReceivedResponse,
  { paymentId, orderId, agentId, requirements, envelope }: Reservation,
  { task, output, outputBytes }: { task: string } & Pick<Delivery, 'output' | 'outputBytes'>,
  logger: Logger,
): PurchasePayment {
  const { network, payTo, amount } = requirements
  const bought = { network, payTo, agentId, payer: envelope.payer, paymentId, task, result: outputBytes ?? output }
  const received = checkReceipt(response.receipt, bought)
  const txHash = response.tx_hash === '' ? undefined : response.tx_hash
  const paid: PurchasePayment = { paymentId, amount, txHash }
  if (received.status === 'valid') return { ...paid, receipt: received.receipt }
  const note = received.status === 'missing' ? '' : received.note
  if (received.status === 'wrong') logger.warn({ order_id: orderId, reason: note }, 'the seller sent a wrong receipt')
  return { ...paid, receiptNote: note }
}
