import { askChain, askChainAfter } from '../payments/chain-verdict.ts'
import type { StoredReservation } from '../store/purchases.ts'
import type { PaymentCheckDeps } from './second-look.ts'

/**
 * Asks the chain whether a purchase was charged. The seller's claim does not count (D41).
 *
 * Before the payment window ends, only a transfer counts. After it, a payment that was never settled counts as not
 * spent.
 *
 * @returns `open`: it may still be charged. `unknown`: no chain can be asked, or it shows too little.
 */
export async function confirmOnChain(
  reservation: StoredReservation,
  isOver: boolean,
  deps: PaymentCheckDeps,
): Promise<'confirmed' | 'released' | 'open' | 'unknown'> {
  const { purchases, clock, chain, changed, logger } = deps
  const { envelope, requirements, paymentId, orderId, txHash } = reservation
  const { authorization } = envelope.payload!
  if (chain === undefined) return 'unknown'
  const { asset } = requirements
  const shown = isOver ? await askChainAfter({ asset, authorization }, chain) : undefined
  // If the chain's logs do not reach back far enough, check the transaction that the seller named.
  const isShown = shown !== undefined && shown.kind !== 'unknown'
  const verdict = isShown ? shown : await askChain({ asset, authorization, named: txHash }, chain)
  if (verdict.kind === 'paid') {
    await purchases.confirm(reservation, verdict.txHash, clock.now())
    changed(orderId)
    return 'confirmed'
  }
  if (!isShown) return verdict.kind === 'unknown' ? 'unknown' : 'open'
  if (txHash !== undefined) {
    const ids = { order_id: orderId, payment_id: paymentId, tx_hash: txHash }
    logger.warn(
      ids,
      'the transaction that the seller named did not charge this payment; the payment counts as not charged',
    )
  }
  await purchases.giveBack(reservation, clock.now())
  changed(orderId)
  return 'released'
}

/**
 * Asks the chain once about the payment of a received result, whose window has not ended.
 *
 * @returns undefined: there is no chain to ask
 */
export async function confirmNow(orderId: string, deps: PaymentCheckDeps): Promise<'confirmed' | 'open' | undefined> {
  const reservation = await deps.purchases.reservationOf(orderId)
  if (deps.chain === undefined || reservation === undefined) return undefined
  if (reservation.confirmation === 'chain') return 'confirmed'
  return (await confirmOnChain(reservation, false, deps)) === 'confirmed' ? 'confirmed' : 'open'
}
