import type { OrderRecord } from '../schema/order.ts'
import { isUndone } from '../store/idempotency.ts'

/** `given up`: its key is free again, and whoever waited for it goes on with the same one. `failed`: it cost nothing. */
export type AttemptEnd = 'bought' | 'failed' | 'given up'

export const isFailed = ({ status }: OrderRecord) => status === 'failed' || status === 'cancelled'

/** True if the payment of an order was signed. */
export const isBound = ({ payment }: OrderRecord) => payment !== undefined

/** False if the order has bought nothing, so the next attempt continues its series. */
export const isOver = (order: OrderRecord) => !isFailed(order) || isBound(order)

/** How the order before has ended. @param isAnswer true if it would have answered, and has bought nothing in the end */
export function endOf(order: OrderRecord, isAnswer: boolean): AttemptEnd {
  if (isAnswer) return 'given up'
  if (isOver(order)) return 'bought'
  const { status, error, cancel_requested: isCanceled } = order
  return status === 'failed' && isCanceled !== true && isUndone(error?.code) ? 'given up' : 'failed'
}
