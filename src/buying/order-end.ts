import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { hasPassed, type PaymentChain } from '../payments/chain-verdict.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { RESULT_HOURS } from '../schema/limits.ts'
import type { Order, OrderError, Purchases, StoredReservation } from '../store/purchases.ts'
import { EXPIRY_MARGIN_MS } from './open-checks.ts'
import { outcomeOf } from './outcome.ts'

type OrderEndDeps = { clock: Clock; logger: Logger; purchases: Pick<Purchases, 'maySendElsewhere'> }

/**
 * Returns why no result of an order will come, from its seller's answer to a request for the result. Undefined: the seller is
 * asked again.
 *
 * A seller that never saw the payment may still get it from the process that signed it, if that process was cut off from the
 * ledger or stands still. The order then waits for the end of the payment window, because another purchase could pay twice.
 * A failed run has voided the payment, so the payment cannot buy anything.
 */
export async function lastWordOn(
  order: Order,
  { error, reservation }: { error: unknown; reservation: StoredReservation },
  { clock, logger, purchases }: OrderEndDeps,
): Promise<OrderError | undefined> {
  // A paid order does not fail on the seller's answer. Its result is asked for again.
  if (order.status !== 'executing' || reservation.state !== 'reserved') return undefined
  if (!(error instanceof PeerError) || outcomeOf(error, 'result') === 'ask again') return undefined
  const isOver = clock.now() > reservation.validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS
  if (isOver || error.code === 'EXECUTION_FAILED' || !(await purchases.maySendElsewhere(order.id)))
    return forCaller(error, 'held')
  const ids = { order_id: order.id, payment_id: reservation.paymentId, correlation_id: order.correlationId }
  logger.info(
    ids,
    'an order waits for the end of its payment window: the process that signed may still send the payment',
  )
  return undefined
}

/** A seller keeps a result this long after settlement (D32). Settlement ends with the payment window. */
const RESULT_KEPT_MS = RESULT_HOURS * 60 * 60 * 1000

/** True if the seller keeps the result of a purchase no longer, by our clock and by that of the chain: ours may run ahead. */
export async function isForgotten(
  { validBeforeSeconds }: Pick<StoredReservation, 'validBeforeSeconds'>,
  { clock, chain }: { clock: Clock; chain?: Pick<PaymentChain, 'blockTimeMs'> | undefined },
): Promise<boolean> {
  const keptMs = validBeforeSeconds * 1000 + RESULT_KEPT_MS
  return clock.now() > keptMs && (chain === undefined || (await hasPassed(keptMs, chain)) === true)
}

type FailureDeps = { clock: Clock; purchases: Pick<Purchases, 'finish' | 'stopAsking'>; changed(orderId: string): void }

const NOT_TAKEN = 'the call was interrupted before its seller took it'
/** What became of the money of a call that its seller did not take. */
const MONEY = {
  held: 'nothing is charged so far, and the amount stays held until the signed payment has expired without a charge',
  free: 'nothing was charged',
} as const

/** Replaces what the seller says to this node, which could still pay or sign more. The caller cannot. */
export function forCaller({ code, message, retryable }: PeerError, money: keyof typeof MONEY): OrderError {
  const isUntaken = code === 'PAYMENT_REQUIRED'
  return { code, message: isUntaken ? `${NOT_TAKEN}: ${MONEY[money]}` : message, retryable }
}

/** Stores how an order without a caller failed, and tells who asks for it. */
export async function failOrder(
  order: Order,
  { code, message, retryable = false }: { code: string; message: string; retryable?: boolean },
  { purchases, clock, changed }: Pick<FailureDeps, 'clock' | 'changed'> & { purchases: Pick<Purchases, 'finish'> },
): Promise<void> {
  await purchases.finish({ ...order, status: 'failed', error: { code, message, retryable }, updatedAt: clock.now() })
  changed(order.id)
}

/** The seller has dropped the result. A person can still ask for it. */
export async function giveUp(
  order: Order | undefined,
  reservation: StoredReservation,
  deps: FailureDeps,
): Promise<void> {
  const { txHash } = reservation
  if (order?.status === 'executing') {
    const proof = txHash === undefined ? 'the chain could not be asked' : `the payment was settled in ${txHash}`
    const message = `no result came in the ${RESULT_HOURS} h that a seller keeps it; ${proof}; stoa payment retry asks once more`
    await failOrder(order, { code: 'SELLER_FAILED', message }, deps)
  }
  await deps.purchases.stopAsking(reservation)
}
