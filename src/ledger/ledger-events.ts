import type { Feed } from '../lib/feed.ts'
import type { NodeEvents } from '../schema/events.ts'
import type { Hex } from '../schema/primitives.ts'
import type { OrderStore } from '../store/orders.ts'
import type { Payments } from '../store/payments.ts'
import type { Order, Purchases } from '../store/purchases.ts'
import { type NamesOf, orderRecord } from './order-record.ts'
import { madePayment, receivedPayment } from './payment-record.ts'

export type NodeFeed = Feed<NodeEvents>
type NameOf = (agentId: string) => string | undefined

/**
 * Wraps the stores of a node so that each change is published to the feed once it is on disk.
 *
 * Every change passes through these wrappers, so no event is missed.
 */
export function publishedPayments(payments: Payments, feed: NodeFeed, nameOf: NameOf): Payments {
  const tell = (id: Hex) =>
    feed.publish('payment', id, () => {
      const payment = payments.get(id)
      return payment && receivedPayment(payment, nameOf)
    })
  return {
    ...payments,
    async claim(claim, now) {
      const isClaimed = await payments.claim(claim, now)
      if (isClaimed) tell(claim.id)
      return isClaimed
    },
    async deliver(progress, exchange, now) {
      await payments.deliver(progress, exchange, now)
      tell(progress.id)
    },
    async save(progress, now) {
      await payments.save(progress, now)
      tell(progress.id)
    },
    async reopen(progress, now) {
      const isOpen = await payments.reopen(progress, now)
      if (isOpen) tell(progress.id)
      return isOpen
    },
    async takeBack(progress, now) {
      const isOwed = await payments.takeBack(progress, now)
      if (isOwed) tell(progress.id)
      return isOwed
    },
    async paidBack(id, txHash, now) {
      await payments.paidBack(id, txHash, now)
      tell(id)
    },
    async hastenOne(id, now) {
      const isDue = await payments.hastenOne(id, now)
      if (isDue) tell(id)
      return isDue
    },
    async lookAgain(id, at, txHash) {
      const before = payments.get(id)?.txHash
      await payments.lookAgain(id, at, txHash)
      if (txHash !== undefined && txHash !== before) tell(id)
    },
  }
}

export function publishedPurchases(purchases: Purchases, feed: NodeFeed, namesOf: NamesOf): Purchases {
  const tellOrder = (id: string) => tellOf(id, purchases, feed, namesOf)
  const tellPayment = (orderId: string) =>
    feed.publish('payment', orderId, () => {
      const made = purchases.reservationOf(orderId)
      return made && madePayment(made, (id) => namesOf(id)?.name)
    })
  /** Publishes the payment of the order that a change was about. Undefined: nothing changed. */
  const paymentTold = (orderId: string | undefined) => {
    if (orderId !== undefined) tellPayment(orderId)
    return orderId
  }
  /** Publishes the order, too. */
  const orderTold = (orderId: string | undefined) => {
    if (orderId !== undefined) tellOrder(orderId)
    return paymentTold(orderId)
  }
  return {
    ...purchases,
    async reserve(order, reservation, budget) {
      const outcome = await purchases.reserve(withNames(order, namesOf), reservation, budget)
      if (outcome === 'reserved') {
        tellOrder(order.id)
        tellPayment(order.id)
      }
      return outcome
    },
    async finish(order, paid) {
      await purchases.finish(withNames(order, namesOf), paid)
      tellOrder(order.id)
      if (paid !== undefined) tellPayment(order.id)
    },
    setTxHash: async (...change) => paymentTold(await purchases.setTxHash(...change)),
    confirm: async (...change) => paymentTold(await purchases.confirm(...change)),
    resolve: async (...change) => paymentTold(await purchases.resolve(...change)),
    giveBack: async (...change) => paymentTold(await purchases.giveBack(...change)),
    takeBack: async (...change) => orderTold(await purchases.takeBack(...change)),
    paidBack: async (...change) => orderTold(await purchases.paidBack(...change)),
    unconfirm: async (...change) => paymentTold(await purchases.unconfirm(...change)),
  }
}

export function publishedOrders(
  orders: OrderStore,
  purchases: Purchases,
  feed: NodeFeed,
  namesOf: NamesOf,
): OrderStore {
  const tell = (id: string) => tellOf(id, purchases, feed, namesOf)
  /** Publishes an order that a change returned. Undefined: nothing changed. */
  const told = (order: Order | undefined) => {
    if (order !== undefined) tell(order.id)
    return order
  }
  return {
    ...orders,
    async place(order, limits, keyed) {
      const outcome = await orders.place(withNames(order, namesOf), limits, keyed)
      if (outcome === 'placed') tell(order.id)
      return outcome
    },
    giveTask: async (...change) => told(await orders.giveTask(...change)),
    begin: async (...change) => told(await orders.begin(...change)),
    cancel: async (...change) => told(await orders.cancel(...change)),
  }
}

/** Stores the names of agent and seller with an order, because the seller may delist the agent later (D42). */
function withNames(order: Order, namesOf: NamesOf): Order {
  if (order.agentName !== undefined && order.sellerName !== undefined) return order
  const { name, seller_name } = namesOf(order.agentId) ?? {}
  const [agentName, sellerName] = [order.agentName ?? name, order.sellerName ?? seller_name]
  return { ...order, ...(agentName !== undefined && { agentName }), ...(sellerName !== undefined && { sellerName }) }
}

function tellOf(
  id: string,
  purchases: Pick<Purchases, 'order' | 'reservationOf'>,
  feed: NodeFeed,
  namesOf: NamesOf,
): void {
  feed.publish('order', id, () => {
    const order = purchases.order(id)
    return order && orderRecord(order, purchases.reservationOf(id), namesOf(order.agentId))
  })
}
