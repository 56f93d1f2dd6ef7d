import { doubledMs } from '../lib/retry.ts'
import { pause } from '../lib/wait.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { StoredReservation } from '../store/purchases.ts'
import type { Recovery } from './recovery.ts'
import { paymentOf } from './run-order.ts'

const POLL = { firstMs: 100, mostMs: 1_000 }
/** Some blocks of the chain, and a node behind the RPC that lags. */
const LIMIT_MS = 15_000

type ShownDeps = {
  purchases: { reservationOf(orderId: string): Promise<StoredReservation | undefined> }
  recovery: Pick<Recovery, 'confirm'>
}

/**
 * Asks the chain about the transaction that the seller has named until it shows the transfer, for a caller that waits for
 * the settlement (D46). The result stands in any case: what goes wrong here costs the caller nothing.
 */
export async function untilShown(
  result: ExecutionResult,
  { purchases, recovery }: ShownDeps,
  signal: AbortSignal,
): Promise<ExecutionResult> {
  const { order_id: orderId, payment } = result
  if (orderId === undefined || payment?.settlement !== 'claimed') return result
  const end = performance.now() + LIMIT_MS
  try {
    for (let looks = 1; !signal.aborted; looks++) {
      const verdict = await recovery.confirm(orderId)
      if (verdict === 'confirmed') break
      const waitMs = doubledMs(looks, POLL)
      if (verdict === undefined || performance.now() + waitMs > end) return result
      await pause(waitMs, signal)
    }
    const made = await purchases.reservationOf(orderId)
    return made === undefined
      ? result
      : { ...result, payment: paymentOf({ reservation: made, txHash: made.txHash }, made) }
  } catch {
    return result
  }
}
