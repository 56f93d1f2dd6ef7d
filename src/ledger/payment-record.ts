import { isoTime } from '../lib/clock.ts'
import type { SignedAuthorization } from '../schema/payment.ts'
import type { PaymentRecord } from '../schema/payment-record.ts'
import type { PaymentState, StoredPayment } from '../store/payments.ts'
import type { StoredReservation } from '../store/purchases.ts'
import { factsOf, madeBook, noteOf, paymentView, receivedBook, refundOf, signedPayment } from './payment-view.ts'

/** The stored states of received payments, as the API names them. */
const receivedStates = {
  authorized: 'reserved',
  owed: 'pending',
  settled: 'settled',
  voided: 'voided',
  unsettled: 'failed',
} as const satisfies Record<PaymentState, PaymentRecord['state']>

/** A payment that this node received or expects. */
export function receivedPayment(
  payment: StoredPayment,
  nameOf: (agentId: string) => string | undefined,
): PaymentRecord {
  const { id, agentId, peerId, signed, requirements, txHash, attempts, nextAttemptAt, error } = payment
  const { network, asset, amount, payTo } = requirements
  const facts = { paymentId: id, network, asset, amount, payTo, payer: signed.authorization.from, txHash }
  const { id: channel, charge: metered } = payment.channel ?? {}
  return {
    ...paymentView({ ...facts, channel, metered }),
    direction: 'in',
    agent_id: agentId,
    ...named(nameOf(agentId)),
    peer_id: peerId,
    ...(payment.door !== undefined && { door: payment.door }),
    correlation_id: payment.correlationId,
    book: receivedBook(payment),
    ...refundOf(payment),
    state: receivedStates[payment.state],
    attempts,
    ...(payment.state === 'owed' && nextAttemptAt !== undefined && { next_attempt_at: isoTime(nextAttemptAt) }),
    ...(error !== undefined && { error }),
    challenge_nonce: payment.challengeNonce ?? null,
    max_timeout_seconds: requirements.maxTimeoutSeconds,
    ...(channel === undefined && authorizationView(signed)),
    created_at: isoTime(payment.createdAt),
    updated_at: isoTime(payment.updatedAt),
  }
}

export function madePayment(made: StoredReservation, nameOf: (agentId: string) => string | undefined): PaymentRecord {
  return {
    ...paymentView(factsOf(made, made.txHash)),
    direction: 'out',
    agent_id: made.agentId,
    ...named(made.agentName ?? nameOf(made.agentId)),
    peer_id: made.sellerId,
    order_id: made.orderId,
    state: signedPayment(made).settlement,
    book: madeBook(made),
    ...refundOf(made),
    ...noteOf(made),
    challenge_nonce: made.envelope.server_nonce === 'preemptive' ? null : made.envelope.server_nonce,
    max_timeout_seconds: made.requirements.maxTimeoutSeconds,
    // A call on a channel has no authorization of its own.
    ...(made.envelope.payload && authorizationView(made.envelope.payload)),
    created_at: isoTime(made.createdAt),
    updated_at: isoTime(made.updatedAt),
  }
}

function authorizationView({ authorization }: SignedAuthorization) {
  return {
    nonce: authorization.nonce,
    valid_after: isoTime(Number(authorization.validAfter) * 1000),
    valid_before: isoTime(Number(authorization.validBefore) * 1000),
  }
}

function named(name: string | undefined): { agent_name?: string } {
  return name === undefined ? {} : { agent_name: name }
}
