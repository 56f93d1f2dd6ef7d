import { type Caller, ownerSeen } from '../schema/caller.ts'
import type { EventType } from '../schema/events.ts'
import { StoreError } from '../store/store-error.ts'

type Readers = {
  orders: { get(id: string, caller: Caller): unknown }
  workflows: { get(id: string, caller: Caller): unknown }
  ledger: { payment(id: string, caller: Caller): unknown }
}

/**
 * Returns true if a caller may see an event: public events, and events of its own orders, payments, workflows and
 * approvals (D48).
 *
 * @throws StoreError
 */
export function mayFollowOf({ orders, workflows, ledger }: Readers) {
  return async (caller: Caller, type: EventType, data: unknown): Promise<boolean> => {
    if (ownerSeen(caller) === undefined) return true
    const { id = '', order_id = '', payment_id = '' } = data as { id?: string; order_id?: string; payment_id?: string }
    try {
      if (type === 'order') await orders.get(id, caller)
      if (type === 'approval') await orders.get(order_id, caller)
      if (type === 'workflow') await workflows.get(id, caller)
      if (type === 'payment') await ledger.payment(payment_id, caller)
      return true
    } catch (error) {
      // The ledger did not say whose it is. The caller must not miss the event, so it has to come back for it.
      if (error instanceof StoreError) throw error
      return false
    }
  }
}
