import { givenAt, receiptOf } from '../../payments/receipt.ts'
import { x402ReceiptOf } from '../../payments/x402-receipt.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ReceiptForm, SignedReceipt, SignedX402Receipt } from '../../schema/receipt.ts'
import type { X402Message } from '../../schema/x402.ts'
import type { Claim, StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import type { Caller, Exchange, PaidRunDeps, X402ServerDeps } from './exchange.ts'
import { respond } from './messages.ts'
import { paidBack, paymentOf, provenPayment, refuseElsewhere } from './proven-payment.ts'
import { runEnd } from './running.ts'

type Paid = Pick<Claim, 'id' | 'agentId' | 'correlationId'> & {
  network: string
  payer: Hex
  txHash?: Hex | undefined
}

/**
 * Signs a receipt for the result, before it is stored (ADR-11, ADR-33). It has no transaction unless the payment was
 * settled first. @returns undefined if it cannot be signed: the result is worth more than its receipt
 */
export async function signReceipt(
  payment: Paid,
  delivered: { task: string; result: string },
  form: ReceiptForm,
  deps: Pick<PaidRunDeps, 'receiptSigner' | 'clock' | 'logger'>,
): Promise<SignedReceipt | undefined> {
  const { id: paymentId, agentId, txHash, network, payer } = payment
  try {
    const delivery = { network, agentId, payer, paymentId, ...delivered, txHash }
    return await deps.receiptSigner.sign(receiptOf(delivery, deps.clock.now()), form)
  } catch (err) {
    const ids = { payment_id: paymentId, correlation_id: payment.correlationId }
    deps.logger.error({ ...ids, err }, 'could not sign a receipt; the result goes without it')
    return undefined
  }
}

/** A stored receipt as this buyer can read it. One of another form says the same, also about the time. */
export async function readableReceipt(
  receipt: SignedReceipt | undefined,
  { receiptForm = 'eip712' }: Pick<Caller, 'receiptForm'>,
  { receiptSigner }: Pick<PaidRunDeps, 'receiptSigner'>,
): Promise<SignedReceipt | undefined> {
  // A buyer that asks for a tree can read both forms.
  if (receipt === undefined || receipt.format === 'eip712' || receiptForm === 'merkle') return receipt
  return receiptSigner.sign(receipt.payload, receiptForm)
}

/** Answers `method: "receipt"`: the receipt of this payment as x402 has it, for the peer that paid. */
export async function answerReceipt(
  request: Pick<X402Message<'x402.request'>, 'payment' | 'resource'>,
  exchange: Exchange,
  deps: X402ServerDeps,
): Promise<void> {
  const { resource } = request
  const id = provenPayment(request.payment, { what: 'receipt', ...exchange }, deps)
  await runEnd(id, deps)
  await refuseElsewhere(id, { payment: request.payment, peerId: exchange.peerId }, deps)
  const stored = await paymentOf(id, { peerId: exchange.peerId, resource }, deps)
  const receipt = await signX402Receipt(stored, deps)
  const tokenId = deps.agents.tokenOf(stored.agentId) ?? ''
  await respond({ id, tokenId, output: '', txHash: stored.txHash, receipt }, { ...exchange, isWrapped: false }, deps)
}

/**
 * The receipt of a payment as x402 has it. It says nothing that tells two payments apart but its time. So it is only
 * given for a payment that bought something and moved money, and it is the same one each time.
 *
 * @throws PeerError
 */
export async function signX402Receipt(
  payment: StoredPayment,
  { receiptSigner, payments }: Pick<PaidRunDeps, 'receiptSigner' | 'payments'>,
): Promise<SignedX402Receipt> {
  const { id, agentId, state, txHash, requirements, signed } = payment
  if (state === 'voided') throw new PeerError('EXECUTION_FAILED', 'the run failed and nothing was charged: no receipt')
  if (payment.refundTx !== undefined) throw paidBack(payment.refundTx)
  if (state === 'unsettled') {
    const reason = `the payment could not be settled (${payment.error ?? 'no reason known'}): no receipt`
    throw new PeerError('SETTLEMENT_FAILED', reason, { retryable: false })
  }
  if (state !== 'settled' || (txHash === undefined && payment.channel === undefined)) {
    throw new PeerError('SETTLEMENT_FAILED', 'the payment is not settled yet; ask for its receipt later')
  }
  if (!payment.ran) throw new PeerError('SETTLEMENT_FAILED', 'there is no result yet; ask for it first')
  if (await payments.isBeingPaidBack(id)) {
    throw new PeerError('SETTLEMENT_FAILED', 'the seller is paying this payment back; ask again later')
  }
  const issuedAt = givenAt(payment.receipt, payment.createdAt)
  const { network } = requirements
  return receiptSigner.signX402(
    x402ReceiptOf({ network, agentId, payer: signed.authorization.from, issuedAt, txHash: txHash ?? '' }),
  )
}
