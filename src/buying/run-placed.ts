import { randomUUID } from 'node:crypto'
import { MarketError } from '../listings/market-error.ts'
import type { Listing } from '../schema/listing.ts'
import type { WebOrder } from '../schema/web-purchase.ts'
import type { Order, OrderError } from '../store/purchases.ts'
import { permittedPrice } from './guard.ts'
import type { OrdersDeps } from './order-requests.ts'
import { orderError, runOrder } from './run-order.ts'
import { askAgain, type WebSold } from './web/asked.ts'

/**
 * Runs a placed order at its seller over HTTP. The seller is asked again: what it asked before, such as when the approval
 * was asked for, does not count.
 */
export async function runPlacedOnWeb(
  order: Order & { task: string; web: WebOrder },
  deps: OrdersDeps,
  stopping: AbortSignal,
): Promise<void> {
  let found: { sold: WebSold; asked: Order & { task: string } }
  try {
    found = await askAgain(order, { ...deps.running, payees: deps.payees }, stopping)
  } catch (error) {
    if (stopping.aborted) return
    if (!(error instanceof MarketError)) throw error
    return failPlaced(order.id, orderError(error), deps)
  }
  try {
    await runPlaced(found.asked, found.sold, deps, stopping)
  } finally {
    await found.sold.live.close()
  }
}

/** Runs a placed order, or holds it until the operator has approved it. Nobody waits for it. */
export async function runPlaced(
  order: Order & { task: string },
  sold: Listing | WebSold,
  deps: OrdersDeps,
  stopping: AbortSignal,
): Promise<void> {
  const { store, clock, running, budget, approvals, logger } = deps
  const { id, task, web } = order
  let price: bigint
  try {
    price = permittedPrice(sold, order.price, budget.perCall())
  } catch (error) {
    return failPlaced(order.id, orderError(error), deps)
  }
  // The order needs an approval. It goes on when the operator decides.
  if ((await approvals.hold(order, sold)) !== undefined) return
  const correlationId = randomUUID()
  const { signal, end } = beginWork(id, deps, stopping)
  const begun = await store
    .begin(id, { sellerId: sold.seller_id, correlationId, now: clock.now() })
    .catch((error: unknown) => {
      end()
      throw error
    })
  // The order was canceled in the meantime, or another process has begun it.
  if (begun === undefined) return end()
  const runnable = { ...begun, price, task, correlationId, ...(web && { web }) }
  await runOrder(runnable, sold, { signal }, running).catch((error: unknown) => {
    logger.debug({ err: error, order_id: id, correlation_id: correlationId }, 'a placed order failed')
  })
}

/** Marks an order as worked on before it is executing, so that a cancellation always finds its run. */
function beginWork(
  id: string,
  { active, changes }: Pick<OrdersDeps, 'active' | 'changes'>,
  stopping: AbortSignal,
): { signal: AbortSignal; end(): void } {
  const canceled = new AbortController()
  active.set(id, (reason) => canceled.abort(reason))
  return {
    signal: AbortSignal.any([stopping, canceled.signal]),
    end() {
      active.delete(id)
      changes.tell(id)
    },
  }
}

/** Fails a placed order that nobody has begun: another process may have heard otherwise, and have signed for it. */
export async function failPlaced(
  id: string,
  error: OrderError,
  { store, clock, changes }: Pick<OrdersDeps, 'store' | 'clock' | 'changes'>,
): Promise<void> {
  await store.fail(id, error, clock.now())
  changes.tell(id)
}
