import type { Logger } from '../lib/logger.ts'
import { checkReceipt } from '../payments/receipt.ts'
import type { ReceivedResponse } from '../protocols/x402/answers.ts'
import type { Paid, Reservation } from '../store/purchases.ts'

/** Reads the payment details from a response: the transaction, and the receipt if it is valid. */
export function paidFor(
  response: ReceivedResponse,
  { paymentId, orderId, agentId, requirements, envelope }: Reservation,
  task: string,
  logger: Logger,
): Paid {
  const { network, payTo, amount } = requirements
  const result = Buffer.from(response.body, 'base64')
  const bought = { network, payTo, agentId, payer: envelope.payer, paymentId, task, result }
  const received = checkReceipt(response.receipt, bought)
  const txHash = response.tx_hash === '' ? undefined : response.tx_hash
  const paid: Paid = { paymentId, amount, txHash }
  if (received.status === 'valid') return { ...paid, receipt: received.receipt }
  const note = received.status === 'missing' ? '' : received.note
  if (received.status === 'wrong') logger.warn({ order_id: orderId, reason: note }, 'the seller sent a wrong receipt')
  return { ...paid, receiptNote: note }
}
