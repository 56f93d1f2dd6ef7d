import type { Feed } from '../lib/feed.ts'
import type { NodeEvents } from '../schema/events.ts'
import type { LedgerListener } from '../store/ledger-changes.ts'
import type { LedgerRecords } from './ledger.ts'
import { type NamesOf, orderRecord } from './order-record.ts'
import { madePayment, receivedPayment } from './payment-record.ts'

export type NodeFeed = Feed<NodeEvents>

/** Publishes each change of an order or a payment. The records are read when a subscriber takes the event. */
export function ledgerFeed(
  feed: NodeFeed,
  { payments, purchases }: Pick<LedgerRecords, 'payments' | 'purchases'>,
  namesOf: NamesOf,
): LedgerListener {
  const nameOf = (agentId: string) => namesOf(agentId)?.name
  return (change) => {
    if (change.record === 'payment') {
      const { id } = change
      feed.publish('payment', id, async () => {
        const payment = await payments.get(id)
        return payment && receivedPayment(payment, nameOf)
      })
    } else if (change.record === 'reservation') {
      const { orderId } = change
      feed.publish('payment', orderId, async () => {
        const made = await purchases.reservationOf(orderId)
        return made && madePayment(made, nameOf)
      })
    } else if (change.record === 'order') {
      const { id } = change
      feed.publish('order', id, async () => {
        const [order, reservation] = await Promise.all([purchases.order(id), purchases.reservationOf(id)])
        return order && orderRecord(order, reservation, namesOf(order.agentId))
      })
    }
  }
}
