import { proveSigner } from '../../payments/verify.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import type { X402ServerDeps } from './exchange.ts'

/** The id of the payment by which a peer asks for what it bought. Nothing is claimed or charged. @throws PeerError */
export function provenPayment(
  payment: PaymentEnvelope | null,
  asked: 'result' | 'receipt',
  { asset }: Pick<X402ServerDeps, 'asset'>,
): Hex {
  if (payment === null) {
    throw new PeerError('PAYMENT_REQUIRED', `to ask for a ${asked}, send the payment that bought it`)
  }
  const proof = proveSigner(payment, asset)
  if (!proof.ok) throw new PeerError(proof.error, proof.reason)
  return proof.payment.paymentId
}

/** The stored payment, if this peer paid with it for this agent. @throws PeerError */
export async function paymentOf(
  id: Hex,
  { peerId, resource }: { peerId: string; resource: string },
  { payments }: Pick<X402ServerDeps, 'payments'>,
): Promise<StoredPayment> {
  const stored = await payments.get(id)
  if (stored === undefined) {
    throw new PeerError('PAYMENT_REQUIRED', 'this payment was never accepted here; it can still be used to pay')
  }
  if (stored.peerId !== peerId || stored.agentId !== resource) {
    throw new PeerError('PAYMENT_INVALID', 'this payment was made by another peer or for another agent')
  }
  return stored
}

/** Tells a buyer that has its money back. */
export function paidBack(refundTx: Hex): PeerError {
  const error = new PeerError('EXECUTION_FAILED', `the seller has paid this payment back, in ${refundTx}`)
  error.refundTx = refundTx
  return error
}
