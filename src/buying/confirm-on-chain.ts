import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { askChain, askChainAfter, type PaymentChain } from '../payments/chain-verdict.ts'
import type { Purchases, StoredReservation } from '../store/purchases.ts'

type ConfirmDeps = {
  clock: Clock
  logger: Logger
  purchases: Pick<Purchases, 'confirm' | 'giveBack'>
  chain?: PaymentChain | undefined
  /** Called when the state of an order's payment has changed. */
  changed(orderId: string): void
}

/**
 * Asks the chain whether a purchase was charged. The seller's claim does not count (D41).
 *
 * Before the payment window ends, only a transfer counts. After it, a payment that was never settled counts as not
 * spent.
 */
export async function confirmOnChain(
  reservation: StoredReservation,
  isOver: boolean,
  deps: ConfirmDeps,
): Promise<'released' | undefined> {
  const { purchases, clock, chain, changed, logger } = deps
  const { envelope, requirements, paymentId, orderId, txHash } = reservation
  const { authorization } = envelope.payload!
  if (chain === undefined) return undefined
  const { asset } = requirements
  const shown = isOver ? await askChainAfter({ asset, authorization }, chain) : undefined
  // If the chain's logs do not reach back far enough, check the transaction that the seller named.
  const isShown = shown !== undefined && shown.kind !== 'unknown'
  const verdict = isShown ? shown : await askChain({ asset, authorization, named: txHash }, chain)
  if (verdict.kind === 'paid') {
    await purchases.confirm(paymentId, verdict.txHash, clock.now())
    changed(orderId)
    return undefined
  }
  if (!isShown) return undefined
  if (txHash !== undefined) {
    const ids = { order_id: orderId, payment_id: paymentId, tx_hash: txHash }
    logger.warn(
      ids,
      'the transaction that the seller named did not charge this payment; the payment counts as not charged',
    )
  }
  await purchases.giveBack(paymentId, clock.now())
  changed(orderId)
  return 'released'
}
