import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { askChain, askChainAfter, type PaymentChain } from '../payments/chain-verdict.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Purchases, StoredReservation } from '../store/purchases.ts'

/** What was given back is final when the chain has not shown it so long after the window: more than its nodes lag. */
const RELEASED_FINAL_MS = 15 * 60 * 1000
/** What was charged is final so long after the window. */
const PAID_FINAL_MS = 60_000
const UNKNOWN_WAIT_MS = 60_000
/** Where the chain cannot be asked for a day, what it said at first holds. */
const LIMIT_MS = 24 * 60 * 60 * 1000
/** Asked about at once. */
const LOOKS_MAX = 16

export type SecondLookDeps = {
  clock: Clock
  logger: Logger
  purchases: Purchases
  chain?: PaymentChain | undefined
  /** Told when something of what was signed for an order has changed. */
  changed(orderId: string): void
}

/** Asks the chain once more about the purchases whose time has come. Never throws. */
export async function lookAgainWhereDue(network: string, deps: SecondLookDeps): Promise<void> {
  const due = deps.purchases.looksDue(deps.clock.now(), LOOKS_MAX, network)
  const look = (reservation: StoredReservation) =>
    lookAgain(reservation, deps).catch((error: unknown) => {
      deps.logger.warn({ order_id: reservation.orderId, err: error }, 'a purchase could not be looked at again')
    })
  await Promise.all(due.map(look))
}

/**
 * Asks the chain once more what became of a purchase.
 *
 * One of an RPC's nodes may lag and say that nothing was charged, and a reorganization takes a transfer back. What was given back and
 * is charged after all counts again, and its seller is asked for the result; what is no longer shown is the seller's word again.
 */
export async function lookAgain(reservation: StoredReservation, deps: SecondLookDeps): Promise<void> {
  const { clock, logger, purchases, chain, changed } = deps
  const { paymentId, orderId, state, txHash } = reservation
  const isUndecided = state === 'reserved' || (state === 'spent' && reservation.confirmation !== 'chain')
  if (chain === undefined || isUndecided) return purchases.lookAt(paymentId, undefined)
  const endMs = reservation.validBeforeSeconds * 1000
  const { authorization } = reservation.envelope.payload!
  const ask = clock.now() > endMs ? askChainAfter : askChain
  const verdict = await ask(chain, reservation.requirements.asset, authorization, txHash)
  const now = clock.now()
  const ids = { order_id: orderId, payment_id: paymentId }
  if (verdict.kind === 'unknown') {
    return purchases.lookAt(paymentId, now > endMs + LIMIT_MS ? undefined : now + UNKNOWN_WAIT_MS)
  }
  const isPaid = verdict.kind === 'paid'
  if (isPaid === (state === 'spent')) {
    const finalMs = endMs + (isPaid ? PAID_FINAL_MS : RELEASED_FINAL_MS)
    return purchases.lookAt(paymentId, now >= finalMs ? undefined : finalMs)
  }
  if (isPaid) {
    const charged = { paymentId, txHash: verdict.txHash, error: chargedAfterAll(verdict.txHash) }
    if ((await purchases.takeBack(charged, now)) === undefined) return
    logger.warn({ ...ids, tx_hash: verdict.txHash }, 'a payment that counted as not charged was charged after all')
  } else {
    await purchases.unconfirm(paymentId, now)
    logger.warn({ ...ids, tx_hash: txHash }, 'the chain no longer shows a payment that it had shown')
  }
  changed(orderId)
}

/** What an order says that had ended as not charged. */
function chargedAfterAll(txHash: Hex) {
  const message = `no result came, and the payment was charged after all, in ${txHash}: its seller is asked for the result`
  return { code: 'SELLER_FAILED', message, retryable: false }
}
