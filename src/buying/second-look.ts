import type { Chain } from '../chain/chain.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { askChain, askChainAfter, type PaymentChain } from '../payments/chain-verdict.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Purchases, StoredReservation } from '../store/purchases.ts'

/** A released payment is final this long after its window. RPC nodes lag less than that. */
const RELEASED_FINAL_MS = 15 * 60 * 1000
/** A charged payment is final this long after its window. */
const PAID_FINAL_MS = 60_000
const UNKNOWN_WAIT_MS = 60_000
/** If the chain cannot be asked for 24 h, its first answer stands. */
const LIMIT_MS = 24 * 60 * 60 * 1000
/** Purchases checked at the same time. */
const LOOKS_MAX = 16

/** What a check of a payment on the chain needs. */
export type PaymentCheckDeps = {
  clock: Clock
  logger: Logger
  purchases: Purchases
  /** Undefined: no RPC is configured. */
  chain?: (PaymentChain & Partial<Pick<Chain, 'hasMoved'>>) | undefined
  /** Called when an order or its payment has changed. */
  changed(orderId: string): void
}

/** Asks the chain again about the purchases that are due. @throws StoreError if they cannot be read */
export async function lookAgainWhereDue(network: string, deps: PaymentCheckDeps): Promise<void> {
  const due = await deps.purchases.looksDue(deps.clock.now(), LOOKS_MAX, network)
  const look = (reservation: StoredReservation) =>
    lookAgain(reservation, deps).catch((error: unknown) => {
      deps.logger.warn(
        { order_id: reservation.orderId, err: error },
        'a purchase could not be checked again on the chain',
      )
    })
  await Promise.all(due.map(look))
}

/**
 * Asks the chain again what became of a purchase.
 *
 * An RPC node may lag and report "not charged", and a reorganization can take a transfer back. A released payment that
 * was charged after all counts as spent again, and the seller is asked for the result. A payment that the chain no
 * longer shows rests on the seller's claim again. Its seller may have settled it again, in another transaction.
 */
export async function lookAgain(reservation: StoredReservation, deps: PaymentCheckDeps): Promise<void> {
  const { clock, logger, purchases, chain, changed } = deps
  const { paymentId, orderId, state, txHash } = reservation
  const isUndecided = state === 'reserved' || (state === 'spent' && reservation.confirmation !== 'chain')
  if (chain === undefined || isUndecided) return purchases.lookAt(reservation, undefined)
  const endMs = reservation.validBeforeSeconds * 1000
  const { authorization } = reservation.envelope.payload!
  const ask = clock.now() > endMs ? askChainAfter : askChain
  const verdict = await ask({ asset: reservation.requirements.asset, authorization, named: txHash }, chain)
  const now = clock.now()
  const ids = { order_id: orderId, payment_id: paymentId }
  if (verdict.kind === 'unknown') {
    return purchases.lookAt(reservation, now > endMs + LIMIT_MS ? undefined : now + UNKNOWN_WAIT_MS)
  }
  const isPaid = verdict.kind === 'paid'
  const isElsewhere = isPaid && state === 'spent' && verdict.txHash !== txHash
  if (isElsewhere && (await purchases.moved(reservation, verdict.txHash, now)) !== undefined) {
    logger.warn({ ...ids, tx_hash: verdict.txHash }, 'a payment is on the chain in another transaction than before')
    changed(orderId)
  }
  if (isPaid === (state === 'spent')) {
    const finalMs = endMs + (isPaid ? PAID_FINAL_MS : RELEASED_FINAL_MS)
    return purchases.lookAt(reservation, now >= finalMs ? undefined : finalMs)
  }
  if (isPaid) {
    const charged = { orderId, txHash: verdict.txHash, error: chargedAfterAll(verdict.txHash) }
    if ((await purchases.takeBack(charged, now)) === undefined) return
    logger.warn({ ...ids, tx_hash: verdict.txHash }, 'a payment that counted as not charged was charged after all')
  } else {
    await purchases.unconfirm(reservation, now)
    logger.warn({ ...ids, tx_hash: txHash }, 'the chain no longer shows a payment that it had shown')
  }
  changed(orderId)
}

/** The error of an order that had ended as not charged. */
function chargedAfterAll(txHash: Hex) {
  const message = `no result came, and the payment was charged after all in ${txHash}; the node asks the seller for the result`
  return { code: 'SELLER_FAILED', message, retryable: false }
}
