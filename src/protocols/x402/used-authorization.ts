import type { PaymentEnvelope } from '../../schema/payment.ts'
import { PeerError } from '../peer-error.ts'
import type { PaidRunDeps } from './exchange.ts'

type Deps = Pick<PaidRunDeps, 'asset' | 'payments'>

/** The last word about an authorization that was claimed before, or whose challenge was. */
export function usedAuthorization(): PeerError {
  return new PeerError(
    'PAYMENT_NONCE_USED',
    'this authorization or its challenge was used before: ask for the result, or for a new challenge',
  )
}

/** A used authorization is reported before anything else that is wrong with its payment (D27). */
export async function sayingIfUsed(refusal: PeerError, payment: PaymentEnvelope, deps: Deps): Promise<PeerError> {
  const authorization = payment.payload?.authorization
  if (authorization === undefined) return refusal
  const { asset, payments } = deps
  const { from, nonce } = authorization
  return (await payments.authorizationSeen(asset.network, asset.address, from, nonce)) ? usedAuthorization() : refusal
}

/**
 * Takes a step before the claim. The claim itself refuses what was used, so the ledger is asked only if the step refuses
 * the payment: a full seller may not call a paid run unpaid, and the chain shows a payment that settled here as spent.
 */
export async function orUsed<T>(step: () => T | Promise<T>, payment: PaymentEnvelope, deps: Deps): Promise<T> {
  try {
    return await step()
  } catch (refusal) {
    throw refusal instanceof PeerError ? await sayingIfUsed(refusal, payment, deps) : refusal
  }
}
