import type { Chain } from '../chain/chain.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Purchases, StoredReservation } from '../store/purchases.ts'

export type PaidBackDeps = {
  clock: Clock
  logger: Logger
  purchases: Purchases
  chain?: Partial<Pick<Chain, 'hasMoved'>> | undefined
  changed(orderId: string): void
}

/**
 * Notes that a seller has paid back, once the chain shows that its transaction moved the very amount from the account that was
 * paid to the one that paid (D45). A transaction counts for one purchase.
 *
 * @returns whether the order is over by that
 */
export async function notePaidBack(reservation: StoredReservation, txHash: Hex, deps: PaidBackDeps): Promise<boolean> {
  const { clock, logger, purchases, chain, changed } = deps
  const { orderId, paymentId, amount: value } = reservation
  const { from: payer, to: payee } = reservation.envelope.payload!.authorization
  const hasMoved = await chain?.hasMoved?.(txHash, { from: payee as Hex, to: payer as Hex, value }).catch(() => false)
  if (hasMoved !== true || !(await purchases.paidBack(paymentId, txHash, clock.now()))) return false
  const order = purchases.order(orderId)
  logger.info({ order_id: orderId, correlation_id: order?.correlationId, tx_hash: txHash }, 'a seller has paid back')
  if (order?.status === 'executing') {
    const error = { code: 'EXECUTION_FAILED', message: `the seller has paid back, in ${txHash}`, retryable: false }
    await purchases.finish({ ...order, status: 'failed', error, updatedAt: clock.now() })
  }
  changed(orderId)
  return true
}
