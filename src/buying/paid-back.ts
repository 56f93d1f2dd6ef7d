import { askChain } from '../payments/chain-verdict.ts'
import type { Hex } from '../schema/primitives.ts'
import type { StoredReservation } from '../store/purchases.ts'
import type { PaymentCheckDeps } from './second-look.ts'

/**
 * Records that a seller paid back (D45). The chain must show a transfer of the same amount, from the account that was
 * paid to the account that paid, after the payment's settlement. An older transfer had another purpose. One transaction
 * counts for one purchase.
 *
 * @returns true if the refund was recorded
 */
export async function notePaidBack(
  reservation: StoredReservation,
  txHash: Hex,
  deps: PaymentCheckDeps,
): Promise<boolean> {
  const { clock, logger, purchases, chain, changed } = deps
  const { orderId } = reservation
  if (
    chain === undefined ||
    !(await isPaidBack(reservation, txHash, chain)) ||
    (await purchases.paidBack(reservation, txHash, clock.now())) === undefined
  )
    return false
  const order = await purchases.order(orderId)
  logger.info(
    { order_id: orderId, correlation_id: order?.correlationId, tx_hash: txHash },
    'a seller refunded a payment',
  )
  if (order?.status === 'executing') {
    const error = {
      code: 'EXECUTION_FAILED',
      message: `the seller refunded this payment in ${txHash}`,
      retryable: false,
    }
    await purchases.finish({ ...order, status: 'failed', error, updatedAt: clock.now() })
  }
  changed(orderId)
  return true
}

/** Never throws. Returns false until the chain shows both transfers. */
async function isPaidBack(
  { requirements, envelope, amount: value, txHash: named }: StoredReservation,
  txHash: Hex,
  chain: NonNullable<PaymentCheckDeps['chain']>,
): Promise<boolean> {
  const { authorization } = envelope.payload!
  const verdict = await askChain({ asset: requirements.asset, authorization, named }, chain)
  if (verdict.kind !== 'paid') return false
  const wanted = { from: authorization.to as Hex, to: authorization.from as Hex, value, after: verdict.txHash }
  const moved = chain.hasMoved?.(txHash, wanted).catch(() => false)
  return (await moved) === true
}
