import type { Feed } from '../lib/feed.ts'
import type { NodeEvents } from '../schema/events.ts'
import type { Hex } from '../schema/primitives.ts'
import type { LedgerListener } from '../store/ledger-changes.ts'
import type { Ledger, LedgerRecords } from './ledger.ts'
import { type NamesOf, orderRecord } from './order-record.ts'
import { madePayment, receivedPayment } from './payment-record.ts'
import type { Tail, TailListener } from './tail.ts'

export type NodeFeed = Feed<NodeEvents>

type FeedRecords = Pick<LedgerRecords, 'payments' | 'purchases'>
/** Reads the current data of an event. */
type Reads = {
  received(id: string): Promise<NodeEvents['payment'] | undefined>
  made(orderId: string): Promise<NodeEvents['payment'] | undefined>
  order(id: string): Promise<NodeEvents['order'] | undefined>
}

/** Publishes what this process and others that share the ledger change. */
export function publishLedger(
  feed: NodeFeed,
  { ledger, tail }: { ledger: FeedRecords & Pick<Ledger, 'listen'>; tail: Pick<Tail, 'listen'> },
  namesOf: NamesOf,
): void {
  ledger.listen(ledgerFeed(feed, ledger, namesOf))
  tail.listen(sharedFeed(feed, ledger, namesOf))
}

/** Publishes each change of an order or a payment. The records are read when a subscriber takes the event. @internal */
export function ledgerFeed(feed: NodeFeed, records: FeedRecords, namesOf: NamesOf): LedgerListener {
  const { received, made, order } = readsOf(records, namesOf)
  return (change) => {
    if (change.record === 'payment') feed.publish('payment', change.id, received)
    else if (change.record === 'reservation') feed.publish('payment', change.orderId, made)
    else if (change.record === 'order') feed.publish('order', change.id, order)
  }
}

/** Publishes what other processes change in a shared ledger, in the same words. */
function sharedFeed(feed: NodeFeed, records: FeedRecords, namesOf: NamesOf): TailListener {
  const { received, made, order } = readsOf(records, namesOf)
  return {
    changed({ record, id }) {
      if (record === 'payment') feed.publish('payment', id, received, 'elsewhere')
      else if (record === 'purchase') feed.publish('payment', id, made, 'elsewhere')
      else if (record === 'order') feed.publish('order', id, order, 'elsewhere')
    },
    missed: () => feed.reset(),
  }
}

function readsOf({ payments, purchases }: FeedRecords, namesOf: NamesOf): Reads {
  const nameOf = (agentId: string) => namesOf(agentId)?.name
  return {
    async received(id) {
      const payment = await payments.get(id as Hex)
      return payment && receivedPayment(payment, nameOf)
    },
    async made(orderId) {
      const made = await purchases.reservationOf(orderId)
      return made && madePayment(made, nameOf)
    },
    async order(id) {
      const [order, reservation] = await Promise.all([purchases.order(id), purchases.reservationOf(id)])
      return order && orderRecord(order, reservation, namesOf(order.agentId))
    },
  }
}
