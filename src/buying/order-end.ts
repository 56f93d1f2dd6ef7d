import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { Order, Purchases, StoredReservation } from '../store/purchases.ts'
import { EXPIRY_MARGIN_MS } from './open-checks.ts'
import { outcomeOf } from './outcome.ts'

type OrderEndDeps = { clock: Clock; logger: Logger; purchases: Pick<Purchases, 'maySendElsewhere'> }

/**
 * Returns what a seller's answer, asked for the result of an order, makes its last word: no result will come. Undefined: the
 * seller is asked again.
 *
 * A seller that says that it never saw the payment may get it yet from the process that signed it, if that process was cut
 * off from the ledger or stands still. The order then waits for the end of the payment window, because who buys again would
 * pay twice. A failed run has voided the payment: it buys nothing any more.
 */
export async function lastWordOn(
  order: Order,
  { error, reservation }: { error: unknown; reservation: StoredReservation },
  { clock, logger, purchases }: OrderEndDeps,
): Promise<PeerError | undefined> {
  // A paid order does not fail on the seller's answer. Its result is asked for again.
  if (order.status !== 'executing' || reservation.state !== 'reserved') return undefined
  if (!(error instanceof PeerError) || outcomeOf(error, 'result') === 'ask again') return undefined
  const isOver = clock.now() > reservation.validBeforeSeconds * 1000 + EXPIRY_MARGIN_MS
  if (isOver || error.code === 'EXECUTION_FAILED' || !(await purchases.maySendElsewhere(order.id))) return error
  const ids = { order_id: order.id, payment_id: reservation.paymentId, correlation_id: order.correlationId }
  logger.info(
    ids,
    'an order waits for the end of its payment window: the process that signed may still send the payment',
  )
  return undefined
}
