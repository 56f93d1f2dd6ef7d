import type { Logger } from '../lib/logger.ts'
import type { Hex } from '../schema/primitives.ts'
import { createDeferred, type Deferred } from '../store/deferred.ts'
import { createExchanges, type Exchanges } from '../store/exchanges.ts'
import type { LedgerListener, ReservationChange } from '../store/ledger-changes.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import { createOrderStore, type OrderStore } from '../store/orders.ts'
import { createPayments, type PaymentProgress, type Payments, type StoredPayment } from '../store/payments.ts'
import { createPurchases, type Order, type Purchases } from '../store/purchases.ts'
import type { ReservationState } from '../store/reservation-row.ts'
import { createSellerChannelStore, type SellerChannelStore } from '../store/seller-channels.ts'
import { LedgerEvents } from './ledger-events.ts'
import type { NamesOf } from './order-record.ts'

/** The records of what this node sells (payments, exchanges, deferred) and buys (purchases, orders). */
export type LedgerRecords = {
  readonly payments: Payments
  readonly exchanges: Exchanges
  /** Marks of payments whose buyers ask again for the result. */
  readonly deferred: Deferred
  /** Payment channels to this node. */
  readonly sellerChannels: SellerChannelStore
  readonly purchases: Purchases
  readonly orders: OrderStore
}

/**
 * The one place where the records of a node change.
 *
 * Each change is reported to the listeners after its commit and before the writer goes on. A crash in between loses
 * only the report: every listener that must not miss a change reads the store at start.
 */
export interface Ledger extends LedgerRecords {
  /** @returns a function that removes the listener */
  listen(listener: LedgerListener): () => void
}

type LedgerDeps = {
  logger: Logger
  /** The names of an agent and its seller, stored with each order. */
  namesOf: NamesOf
}

export function openRecords(database: LedgerDatabase, { hasChain }: { hasChain: boolean }): LedgerRecords {
  return {
    payments: createPayments(database),
    exchanges: createExchanges(database),
    deferred: createDeferred(database),
    sellerChannels: createSellerChannelStore(database),
    purchases: createPurchases(database, { hasChain }),
    orders: createOrderStore(database),
  }
}

export function createLedger(records: LedgerRecords, { logger, namesOf }: LedgerDeps): Ledger {
  const events = new LedgerEvents(logger)
  return {
    payments: paymentsOf(records.payments, events),
    exchanges: exchangesOf(records, events),
    deferred: {
      ...records.deferred,
      async defer(id) {
        await records.deferred.defer(id)
        events.emit({ record: 'deferral', id })
      },
    },
    sellerChannels: channelsOf(records.sellerChannels, events),
    purchases: purchasesOf(records.purchases, events, namesOf),
    orders: ordersOf(records.orders, events, namesOf),
    listen: (listener) => events.listen(listener),
  }
}

function paymentsOf(payments: Payments, events: LedgerEvents): Payments {
  const progressed = ({ id, state }: PaymentProgress, after?: StoredPayment) =>
    events.emit({ record: 'payment', id, from: 'open', to: state, after })
  /** Makes a change that may take a payment out of a final state. Listeners get the payment as it was before. */
  const undo = async (id: Hex, from: 'unsettled' | 'settled', change: () => Promise<boolean>) => {
    const before = await payments.get(id)
    const isOwed = await change()
    if (isOwed) events.emit({ record: 'payment', id, from, to: 'owed', before })
    return isOwed
  }
  return {
    ...payments,
    async claim(claim, now) {
      const isClaimed = await payments.claim(claim, now)
      if (isClaimed) events.emit({ record: 'payment', id: claim.id, from: undefined, to: 'authorized' })
      return isClaimed
    },
    async claimExposed(claim, now) {
      const exposed = await payments.claimExposed(claim, now)
      if (exposed !== undefined) events.emit({ record: 'payment', id: claim.id, from: undefined, to: 'authorized' })
      return exposed
    },
    async deliver(progress, execution, now) {
      await payments.deliver(progress, execution, now)
      progressed(progress)
      events.emit({ record: 'execution', execution })
    },
    async save(progress, now) {
      const after = await payments.save(progress, now)
      progressed(progress, after)
      return after
    },
    reopen: (progress, now) => undo(progress.id, 'unsettled', () => payments.reopen(progress, now)),
    async abandon(id, error, now) {
      const isVoided = await payments.abandon(id, error, now)
      if (isVoided) progressed({ id, state: 'voided' })
      else events.emit({ record: 'deferral', id })
      return isVoided
    },
    async moveOn(id, error, now) {
      const isVoided = await payments.moveOn(id, error, now)
      if (isVoided) progressed({ id, state: 'voided' })
      return isVoided
    },
    takeBack: (progress, now) => undo(progress.id, 'settled', () => payments.takeBack(progress, now)),
    async paidBack(id, txHash, now) {
      await payments.paidBack(id, txHash, now)
      events.emit({ record: 'payment', id, from: 'settled', to: 'settled' })
    },
    async hastenOne(id, now) {
      const isDue = await payments.hastenOne(id, now)
      if (isDue) events.emit({ record: 'payment', id, from: 'owed', to: 'owed' })
      return isDue
    },
    async lookAgain(id, at, txHash) {
      const before = txHash === undefined ? undefined : (await payments.get(id))?.txHash
      await payments.lookAgain(id, at, txHash)
      if (txHash !== before) events.emit({ record: 'payment', id, from: 'settled', to: 'settled' })
    },
    async takeOver(error, now) {
      const interrupted = await payments.takeOver(error, now)
      if (interrupted > 0) events.emit({ record: 'interruption', payments: interrupted })
      return interrupted
    },
  }
}

function exchangesOf({ exchanges, payments }: LedgerRecords, events: LedgerEvents): Exchanges {
  return {
    ...exchanges,
    async record(execution) {
      const { paymentId } = execution
      const before = paymentId === undefined ? undefined : await payments.get(paymentId)
      const after = await exchanges.record(execution)
      events.emit({ record: 'execution', execution, before, after })
      return after
    },
  }
}

function channelsOf(channels: SellerChannelStore, events: LedgerEvents): SellerChannelStore {
  return {
    ...channels,
    async charge(channel, seqBefore, ended) {
      const isStored = await channels.charge(channel, seqBefore, ended)
      for (const { id, charge, exchange } of isStored ? ended.calls : []) {
        events.emit({ record: 'payment', id, from: undefined, to: charge === undefined ? 'voided' : 'settled' })
        events.emit({ record: 'execution', execution: exchange })
      }
      return isStored
    },
  }
}

function purchasesOf(purchases: Purchases, events: LedgerEvents, namesOf: NamesOf): Purchases {
  const changed = (
    orderId: string | undefined,
    [from, to]: [ReservationState | undefined, ReservationState],
    shown: Pick<ReservationChange, 'isShown' | 'paid'> = {},
  ) => {
    if (orderId !== undefined) events.emit({ record: 'reservation', orderId, from, to, ...shown })
    return orderId
  }
  const orderChanged = (id: string | undefined) => {
    if (id !== undefined) events.emit({ record: 'order', id })
    return id
  }
  /** The order as the ledger has it: if its caller canceled it, it is stored as canceled and not as failed. */
  const asStored = async (order: Order): Promise<Order> => {
    if (order.status !== 'failed') return order
    const stored = await purchases.order(order.id).catch(() => undefined)
    return stored?.status === 'cancelled' ? stored : order
  }
  return {
    ...purchases,
    async reserve(order, reservation, budget) {
      const outcome = await purchases.reserve(withNames(order, namesOf), reservation, budget)
      if (outcome === 'reserved') changed(orderChanged(order.id), [undefined, 'reserved'])
      return outcome
    },
    async finish(order, paid) {
      const stored = await purchases.finish(withNames(order, namesOf), paid)
      events.emit({ record: 'order', id: order.id, ended: await asStored(order) })
      if (paid === undefined) return undefined
      const counts = paid.onChannel !== undefined && stored !== undefined
      const counted = counts ? { isShown: true, paid: { agentId: order.agentId, amount: stored.amount } } : {}
      changed(order.id, ['reserved', 'spent'], counted)
      return stored
    },
    giveUpCall: async (...change) => changed(await purchases.giveUpCall(...change), ['reserved', 'spent']),
    async resolve(of, state, txHash, now) {
      const orderId = await purchases.resolve(of, state, txHash, now)
      return changed(orderId, ['reserved', state], txHash === undefined ? {} : { isShown: true })
    },
    setTxHash: async (...change) => changed(await purchases.setTxHash(...change), ['spent', 'spent']),
    confirm: async (...change) => changed(await purchases.confirm(...change), ['spent', 'spent'], { isShown: true }),
    unconfirm: async (...change) =>
      changed(await purchases.unconfirm(...change), ['spent', 'spent'], { isShown: false }),
    moved: async (...change) => changed(await purchases.moved(...change), ['spent', 'spent']),
    giveBack: async (...change) => changed(await purchases.giveBack(...change), ['spent', 'released']),
    takeBack: async (...change) =>
      changed(orderChanged(await purchases.takeBack(...change)), ['released', 'spent'], { isShown: true }),
    paidBack: async (...change) => changed(orderChanged(await purchases.paidBack(...change)), ['spent', 'spent']),
  }
}

function ordersOf(orders: OrderStore, events: LedgerEvents, namesOf: NamesOf): OrderStore {
  /** Undefined: nothing changed. */
  const changed = (order: Order | undefined) => {
    if (order !== undefined) events.emit({ record: 'order', id: order.id })
    return order
  }
  return {
    ...orders,
    async place(order, limits, keyed) {
      const outcome = await orders.place(withNames(order, namesOf), limits, keyed)
      if (outcome === 'placed') changed(order)
      return outcome
    },
    giveTask: async (...change) => changed(await orders.giveTask(...change)),
    begin: async (...change) => changed(await orders.begin(...change)),
    async fail(...change) {
      const order = await orders.fail(...change)
      if (order !== undefined) events.emit({ record: 'order', id: order.id, ended: order })
      return order
    },
    async cancel(id, now) {
      const order = await orders.cancel(id, now)
      const ended = order?.status === 'cancelled' && order.updatedAt === now ? { ended: order } : {}
      if (order !== undefined) events.emit({ record: 'order', id, ...ended })
      return order
    },
  }
}

/** Stores the names of agent and seller with an order, because the seller may delist the agent later (D42). */
function withNames(order: Order, namesOf: NamesOf): Order {
  if (order.agentName !== undefined && order.sellerName !== undefined) return order
  const { name, seller_name } = namesOf(order.agentId) ?? {}
  const [agentName, sellerName] = [order.agentName ?? name, order.sellerName ?? seller_name]
  return { ...order, ...(agentName !== undefined && { agentName }), ...(sellerName !== undefined && { sellerName }) }
}
