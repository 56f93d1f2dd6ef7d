import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Order, Purchases, StoredReservation } from '../../store/purchases.ts'
import type { SendGate } from '../send-gate.ts'
import { tryOnce } from './buy-on-web.ts'
import { paidDelivery } from './paid-answer.ts'
import { UnclearAnswer } from './unclear-answer.ts'
import { paymentHeader } from './web-payment.ts'
import { sendTo, type WebSellers } from './web-sellers.ts'

/** How long a seller may take. It may begin the run anew. */
const SEND_MS_MAX = 60_000

export type SendAgainDeps = {
  web: WebSellers
  clock: Clock
  logger: Logger
  purchases: Pick<Purchases, 'finish'>
  sendGate?: SendGate | undefined
  changed(orderId: string): void
}

/**
 * Sends the request of a purchase over HTTP again, with the same payment, and stores a result that comes. There is no other
 * way to ask such a seller. Nothing else that it answers counts.
 *
 * A request is not sent again if its result is here, or if it was canceled and may still be unpaid.
 *
 * @returns true if the order has its result
 * @throws StoreError
 */
export async function sendAgain(
  order: Order,
  reservation: StoredReservation,
  deps: SendAgainDeps,
  stopping: AbortSignal,
): Promise<boolean> {
  const { web, clock, logger, purchases, sendGate, changed } = deps
  const kept = order.web
  if (kept?.terms === undefined || order.status === 'completed') return false
  const isUnpaid = reservation.state !== 'spent'
  if (isUnpaid && (order.cancelRequested === true || order.status !== 'executing')) return false
  const isOver = clock.now() > reservation.validBeforeSeconds * 1000
  if (isUnpaid && isOver) return false
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(SEND_MS_MAX)])
  const headers = paymentHeader(kept.terms, reservation.envelope)
  const answer = await tryOnce(async () => {
    const http = await web.open(web.url(kept.request.url), order.tokenId, signal)
    try {
      await sendGate?.(signal)
      return paidDelivery(await sendTo(http, kept.request, headers, signal), {
        order: { ...order, web: kept },
        reservation,
      })
    } finally {
      await http.close()
    }
  })
  if (answer instanceof UnclearAnswer) {
    logger.debug({ order_id: order.id, err: answer }, 'a web seller gave no result for a signed payment')
    return false
  }
  const { output, outputBytes, notes, paid } = answer
  const bought = { output, outputBytes, notes, error: undefined, web: answer.web, updatedAt: clock.now() }
  await purchases.finish({ ...order, status: 'completed', ...bought }, paid)
  changed(order.id)
  return true
}
