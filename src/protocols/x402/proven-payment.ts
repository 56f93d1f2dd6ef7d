import { channelCallId } from '../../payments/channels/call-id.ts'
import { elsewhere } from '../../payments/channels/channel-refused.ts'
import { proveSigner } from '../../payments/verify.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { StoredPayment } from '../../store/payments.ts'
import { PeerError } from '../peer-error.ts'
import type { X402ServerDeps } from './exchange.ts'

/** The scheme of payment channels. */
export const CHANNEL_SCHEME = 'batch-settlement'

export function isOnChannel({ scheme }: Pick<PaymentEnvelope, 'scheme'>): boolean {
  return scheme === CHANNEL_SCHEME
}

/** The refusal of a payment by itself for an agent that is sold on channels only. */
export function onChannelsOnly(): PeerError {
  const reason = `this agent is sold on payment channels only (x402 scheme ${CHANNEL_SCHEME}), as its listing says`
  return new PeerError(
    'PAYMENT_INVALID',
    `${reason}: call it from a node with buyer.channels: auto; nothing was charged`,
  )
}

/**
 * The id of the payment by which a peer asks for what it bought. Nothing is claimed or charged. A call on a channel is found
 * by its correlation id: the connection proves who asks.
 *
 * @throws PeerError
 */
export function provenPayment(
  payment: PaymentEnvelope | null,
  { what, correlationId }: { what: 'result' | 'receipt'; correlationId: string },
  { asset }: Pick<X402ServerDeps, 'asset'>,
): Hex {
  if (payment === null) {
    throw new PeerError('PAYMENT_REQUIRED', `to ask for a ${what}, send the payment that bought it`)
  }
  if (isOnChannel(payment) && payment.channel !== undefined) {
    return channelCallId(payment.channel.voucher.channelId as Hex, correlationId)
  }
  const proof = proveSigner(payment, asset)
  if (!proof.ok) throw new PeerError(proof.error, proof.reason)
  return proof.payment.paymentId
}

/**
 * Refuses to say anything of a call that is not stored while another process has its channel: the call may run there.
 *
 * @throws PeerError PAYMENT_REQUIRED with `elsewhere`
 */
export async function refuseElsewhere(
  id: Hex,
  { payment, peerId }: { payment: PaymentEnvelope | null; peerId: string },
  { channels, payments }: Pick<X402ServerDeps, 'channels' | 'payments'>,
): Promise<void> {
  const channelId = payment?.channel?.voucher.channelId.toLowerCase() as Hex | undefined
  if (channelId === undefined || channels === undefined || (await payments.get(id)) !== undefined) return
  if (!(await channels.isElsewhere(channelId, peerId))) return
  const { message, statement } = elsewhere()
  const refusal = new PeerError('PAYMENT_REQUIRED', message)
  refusal.channel = statement
  throw refusal
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
