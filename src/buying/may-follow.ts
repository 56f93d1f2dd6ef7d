import { type Caller, ownerSeen } from '../schema/caller.ts'
import type { EventType } from '../schema/events.ts'

type Readers = {
  orders: { get(id: string, caller: Caller): unknown }
  workflows: { get(id: string, caller: Caller): unknown }
  ledger: { payment(id: string, caller: Caller): unknown }
}

/**
 * Returns true if a caller may see an event: public events, and events of its own orders, payments, workflows and
 * approvals (D48).
 */
export function mayFollowOf({ orders, workflows, ledger }: Readers) {
  return (caller: Caller, type: EventType, data: unknown): boolean => {
    if (ownerSeen(caller) === undefined) return true
    const { id = '', order_id = '', payment_id = '' } = data as { id?: string; order_id?: string; payment_id?: string }
    try {
      if (type === 'order') orders.get(id, caller)
      if (type === 'approval') orders.get(order_id, caller)
      if (type === 'workflow') workflows.get(id, caller)
      if (type === 'payment') ledger.payment(payment_id, caller)
      return true
    } catch {
      return false
    }
  }
}
