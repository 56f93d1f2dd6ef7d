import { isoTime } from '../lib/clock.ts'
import type { PaymentRecord } from '../schema/payment-record.ts'
import type { StoredPayment } from '../store/payments.ts'
import type { StoredReservation } from '../store/purchases.ts'
import { factsOf, paymentView, signedPayment } from './payment-view.ts'

/** A payment this node has received, or waits for. */
export function receivedPayment(
  payment: StoredPayment,
  nameOf: (agentId: string) => string | undefined,
): PaymentRecord {
  const { id, state, agentId, peerId, signed, requirements, txHash, attempts, nextAttemptAt, error } = payment
  const { network, asset, amount, payTo } = requirements
  const facts = { paymentId: id, network, asset, amount, payTo, payer: signed.authorization.from, txHash }
  return {
    ...paymentView(facts),
    direction: 'in',
    agent_id: agentId,
    ...named(nameOf(agentId)),
    peer_id: peerId,
    state: state === 'authorized' || state === 'owed' ? 'pending' : state === 'unsettled' ? 'failed' : state,
    attempts,
    ...(nextAttemptAt !== undefined && { next_attempt_at: isoTime(nextAttemptAt) }),
    ...(error !== undefined && { error }),
    created_at: isoTime(payment.createdAt),
    updated_at: isoTime(payment.updatedAt),
  }
}

/** A payment this node has signed. */
export function madePayment(made: StoredReservation, nameOf: (agentId: string) => string | undefined): PaymentRecord {
  return {
    ...paymentView(factsOf(made, made.txHash)),
    direction: 'out',
    agent_id: made.agentId,
    ...named(nameOf(made.agentId)),
    peer_id: made.sellerId,
    state: signedPayment(made).settlement,
    created_at: isoTime(made.createdAt),
    updated_at: isoTime(made.updatedAt),
  }
}

function named(name: string | undefined): { agent_name?: string } {
  return name === undefined ? {} : { agent_name: name }
}
