import type { Changes } from '../lib/changes.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { MarketError, resultPending } from '../listings/market-error.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { OnProgress } from '../schema/execution.ts'
import type { ApprovalStore } from '../store/approvals.ts'
import { isUndone } from '../store/idempotency.ts'
import { isFinal } from '../store/order-row.ts'
import type { OrderStore } from '../store/orders.ts'
import type { Order, OrderError, Purchases } from '../store/purchases.ts'
import { approvalRequired } from './approvals.ts'
import type { Flights } from './flights.ts'
import type { Recovery } from './recovery.ts'
import { type ActiveOrders, EXECUTION_MS_MAX, resultOf } from './run-order.ts'

export type AgainDeps = {
  clock: Clock
  purchases: Pick<Purchases, 'order' | 'reservationOf'>
  workerOf: OrderStore['workerOf']
  active: Pick<ActiveOrders, 'has'>
  flights: Flights
  changes: Changes
  approvalStore: Pick<ApprovalStore, 'get'>
  recovery: Pick<Recovery, 'look'>
}
export type Waiting = { signal: AbortSignal; onProgress?: OnProgress }

/** Who reads `retryable` would send the same key again, and get the same failure for 24 hours. */
const NEW_KEY = 'this request failed before, and its key gets the same answer: to try again, send a new idempotency key'

/** The stored failure of an order, as the answer to a repeated request. */
class RecordedFailure extends CodedError {
  override name = 'RecordedFailure'
  readonly retryable: boolean
  readonly orderId: string
  readonly correlationId: string | undefined

  constructor({ code, message, retryable }: OrderError, { id, correlationId }: Order) {
    super(code, retryable ? `${message}; ${NEW_KEY}` : message)
    this.retryable = retryable
    this.orderId = id
    this.correlationId = correlationId
  }
}

/**
 * Answers a repeated request: waits for its order, or answers from the ledger (D38).
 *
 * @returns 'given up' for an order that ended before anything was signed: its caller left, or it could not be stored
 * @throws MarketError, or the error that the order failed with
 */
export async function executeAgain(
  id: string,
  { signal, onProgress }: Waiting,
  deps: AgainDeps,
): Promise<ExecutionResult | 'given up'> {
  const { purchases, flights, active, changes } = deps
  const flight = flights.get(id)
  const read = async () => (await purchases.order(id))!
  const { status, correlationId = '' } = (await purchases.order(id)) ?? { status: 'executing' }
  if (!isFinal(status)) {
    onProgress?.({ type: 'status', data: { status: 'ordered', order_id: id, correlation_id: correlationId } })
  }
  if (flight !== undefined) {
    return flight.attend(signal).catch(async (error: unknown) => {
      if (await isGivenUp(id, deps)) return 'given up' as const
      throw error
    })
  }
  const order = await read()
  await refuseUnapproved(order, deps)
  const isEnded = async () => isFinal((await read()).status)
  if (order.status === 'pending' || active.has(id)) {
    await changes.until(id, isEnded, { limitMs: EXECUTION_MS_MAX, signal })
  } else if (!(await isEnded())) {
    if ((await deps.workerOf(id)) === 'elsewhere') {
      await changes.until(id, isEnded, { limitMs: await runMsLeft(id, deps), signal })
    } else await deps.recovery.look(id)
  }
  return (await isGivenUp(id, deps)) ? 'given up' : recorded(await read(), deps)
}

/** How long another process may still run an order. After the window of its payment only the recovery looks at it. */
async function runMsLeft(id: string, { purchases, clock }: AgainDeps): Promise<number> {
  const reservation = await purchases.reservationOf(id)
  if (reservation === undefined) return EXECUTION_MS_MAX
  return Math.min(EXECUTION_MS_MAX, reservation.validBeforeSeconds * 1000 - clock.now())
}

async function refuseUnapproved({ status, approvalId }: Order, deps: AgainDeps): Promise<void> {
  const approval =
    status === 'pending' && approvalId !== undefined ? await deps.approvalStore.get(approvalId) : undefined
  if (approval?.status === 'pending') throw approvalRequired(approval)
}

async function isGivenUp(id: string, { purchases }: AgainDeps): Promise<boolean> {
  const order = await purchases.order(id)
  return (
    order?.status === 'failed' &&
    isUndone(order.error?.code) &&
    order.cancelRequested !== true &&
    (await purchases.reservationOf(id)) === undefined
  )
}

/** Returns the answer that the caller of this order would have got. */
async function recorded(order: Order, { purchases }: AgainDeps): Promise<ExecutionResult> {
  const { id, agentId, sellerId: seller_id = '', status, error, output, correlationId = id } = order
  if (status === 'completed' && output !== undefined) {
    const reservation = await purchases.reservationOf(id)
    const { outputBytes, notes = [] } = order
    const bought = { output, outputBytes, notes, reservation, txHash: reservation?.txHash }
    return resultOf({ ...order, correlationId }, { id: agentId, seller_id }, bought, {
      isStored: true,
      made: reservation,
    })
  }
  if (status === 'failed' && error !== undefined) throw new RecordedFailure(error, order)
  if (status === 'cancelled') {
    throw new MarketError('ORDER_CANCELLED', `order ${id} was canceled`, { correlationId, orderId: id })
  }
  throw resultPending({ id, correlationId })
}
