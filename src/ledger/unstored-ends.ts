import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import type { Order, PurchasePayment, Purchases, StoredEnd } from '../store/purchases.ts'

const RETRY_MS = 2_000
/** Outcomes kept in memory. Beyond it the oldest is dropped. */
const KEPT_MAX = 10_000
/** Length of all kept tasks and results, in UTF-16 units. The recovery finds dropped ones again after a restart. */
const KEPT_LENGTH_MAX = 64 * 1024 * 1024

type End = { order: Order; paid: PurchasePayment | undefined }

/**
 * Keeps the outcome of a purchase in memory when the store cannot write it, for example on a full disk. Stores it as
 * soon as the store works again. `finish` still throws, so the caller knows that the outcome is not stored.
 */
export function withUnstoredEnds(
  purchases: Purchases,
  deps: { logger: Logger; changed(orderId: string): void },
): { purchases: Purchases; service: Service } {
  const { logger, changed } = deps
  // Not a BoundedMap: the total length is bounded too.
  const ends = new Map<string, End>()
  let length = 0

  function drop(id: string): void {
    const end = ends.get(id)
    if (end === undefined) return
    length -= lengthOf(end)
    ends.delete(id)
  }

  function keep(end: End): void {
    const { id } = end.order
    drop(id)
    ends.set(id, end)
    length += lengthOf(end)
    while (ends.size > KEPT_MAX || length > KEPT_LENGTH_MAX) drop(ends.keys().next().value!)
  }

  async function finish(order: Order, paid?: PurchasePayment): Promise<StoredEnd | undefined> {
    const kept = ends.get(order.id)
    // A failure must not replace a result that waits to be stored. Store the result.
    if (kept?.order.status === 'completed' && order.status !== 'completed') return finish(kept.order, kept.paid)
    try {
      const stored = await purchases.finish(order, paid)
      drop(order.id)
      return stored
    } catch (error) {
      if (isOfStore(error)) keep({ order, paid })
      throw error
    }
  }

  async function storeAll(): Promise<void> {
    for (const [id, { order, paid }] of [...ends]) {
      try {
        await purchases.finish(order, paid)
      } catch (error) {
        // If the store fails, do not try the remaining orders.
        if (isOfStore(error)) throw error
        logger.error({ order_id: id, err: error }, 'the outcome of an order cannot be stored')
        if (ends.get(id)?.order === order) drop(id)
        continue
      }
      if (ends.get(id)?.order === order) drop(id)
      logger.info({ order_id: id, status: order.status }, 'the outcome of an order is now stored')
      changed(id)
    }
  }

  const service = periodic(
    { name: 'unstored ends', firstMs: RETRY_MS, everyMs: RETRY_MS },
    { work: storeAll, onError: (error) => logger.debug({ err: error }, 'outcomes of orders still cannot be stored') },
  )
  return { purchases: { ...purchases, finish }, service }
}

function lengthOf({ order }: End): number {
  return (order.task?.length ?? 0) + (order.output?.length ?? 0) + (order.outputBytes?.length ?? 0)
}

function isOfStore(error: unknown): boolean {
  return error instanceof Error && error.name === 'StoreError'
}
