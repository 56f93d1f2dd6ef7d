import type { Changes } from '../lib/changes.ts'
import { CodedError } from '../lib/errors.ts'
import { MarketError, resultPending } from '../listings/market-error.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { OnProgress } from '../schema/execution.ts'
import type { ApprovalStore } from '../store/approvals.ts'
import { isFinal } from '../store/order-row.ts'
import type { Order, OrderError, Purchases } from '../store/purchases.ts'
import { approvalRequired } from './approvals.ts'
import type { Flights } from './flights.ts'
import type { Recovery } from './recovery.ts'
import { type ActiveOrders, EXECUTION_MS_MAX, resultOf } from './run-order.ts'

export type AgainDeps = {
  purchases: Pick<Purchases, 'order' | 'reservationOf'>
  active: Pick<ActiveOrders, 'has'>
  flights: Flights
  changes: Changes
  approvalStore: Pick<ApprovalStore, 'get'>
  recovery: Pick<Recovery, 'look'>
}
export type Waiting = { signal: AbortSignal; onProgress?: OnProgress }

/** The stored failure of an order, as the answer to a repeated request. */
class RecordedFailure extends CodedError {
  override name = 'RecordedFailure'
  readonly retryable: boolean
  readonly orderId: string
  readonly correlationId: string | undefined

  constructor({ code, message, retryable }: OrderError, { id, correlationId }: Order) {
    super(code, message)
    this.retryable = retryable
    this.orderId = id
    this.correlationId = correlationId
  }
}

/**
 * Answers a repeated request: waits for its order, or answers from the ledger (D38).
 *
 * @returns 'given up' for an order whose caller left before anything was signed
 * @throws MarketError, or the error that the order failed with
 */
export async function executeAgain(
  id: string,
  { signal, onProgress }: Waiting,
  deps: AgainDeps,
): Promise<ExecutionResult | 'given up'> {
  const { purchases, flights, active, changes } = deps
  const read = () => purchases.order(id)!
  const { status, correlationId = '' } = read() ?? { status: 'executing' }
  if (!isFinal(status)) {
    onProgress?.({ type: 'status', data: { status: 'ordered', order_id: id, correlation_id: correlationId } })
  }
  const flight = flights.get(id)
  if (flight !== undefined) {
    return flight.attend(signal).catch((error: unknown) => {
      if (isGivenUp(id, deps)) return 'given up'
      throw error
    })
  }
  refuseUnapproved(read(), deps)
  const isAtWork = read().status === 'pending' || active.has(id)
  if (isAtWork) await changes.until(id, () => isFinal(read().status), { limitMs: EXECUTION_MS_MAX, signal })
  else if (!isFinal(read().status)) await deps.recovery.look(id)
  return isGivenUp(id, deps) ? 'given up' : recorded(read(), deps)
}

function refuseUnapproved({ status, approvalId }: Order, deps: AgainDeps): void {
  const approval = status === 'pending' && approvalId !== undefined ? deps.approvalStore.get(approvalId) : undefined
  if (approval?.status === 'pending') throw approvalRequired(approval)
}

function isGivenUp(id: string, { purchases }: AgainDeps): boolean {
  const order = purchases.order(id)
  return (
    order?.status === 'failed' &&
    order.error?.code === 'ORDER_CANCELLED' &&
    order.cancelRequested !== true &&
    purchases.reservationOf(id) === undefined
  )
}

/** Returns the answer that the caller of this order would have got. */
function recorded(order: Order, { purchases }: AgainDeps): ExecutionResult {
  const { id, agentId, sellerId: seller_id = '', status, error, output, correlationId = id } = order
  if (status === 'completed' && output !== undefined) {
    const reservation = purchases.reservationOf(id)
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
