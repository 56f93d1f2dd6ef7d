import { BoundedMap } from '../lib/bounded-map.ts'
import type { Meters } from '../lib/meters.ts'
import { isLocalCaller } from '../schema/caller.ts'
import type { Exchanges, NewExchange } from '../store/exchanges.ts'
import type { Payments } from '../store/payments.ts'
import type { Purchases } from '../store/purchases.ts'

/** Payments whose time from delivery to settlement is measured at the same time. Beyond it the oldest is dropped. */
const TIMED_MAX = 10_000

export const meterNames = {
  /** side: `sold` or `ordered`; result: `completed`, `failed` or `cancelled`. */
  executions: 'stoa_executions_total',
  executionSeconds: 'stoa_execution_seconds',
  /** direction: `in` or `out`; state: the new state of the payment. */
  payments: 'stoa_payments_total',
  settlementSeconds: 'stoa_settlement_seconds',
} as const

/** Wraps the stores of a node so that each write is counted. */
export function meteredPayments(payments: Payments, meters: Meters): Payments {
  const owedSince = new BoundedMap<string, number>(TIMED_MAX)
  const count = (state: string, by?: number) => meters.count(meterNames.payments, { direction: 'in', state }, by)
  const owed = (id: string, now: number) => {
    if (owedSince.has(id)) return
    count('owed')
    owedSince.set(id, now)
  }
  const ended = (id: string, state: string, now: number) => {
    count(state)
    const since = owedSince.get(id)
    owedSince.delete(id)
    if (state === 'settled' && since !== undefined) meters.observe(meterNames.settlementSeconds, (now - since) / 1000)
  }
  return {
    ...payments,
    async claim(claim, now) {
      const isClaimed = await payments.claim(claim, now)
      if (isClaimed) count('authorized')
      return isClaimed
    },
    async deliver(progress, exchange, now) {
      await payments.deliver(progress, exchange, now)
      if (progress.state === 'owed') owed(progress.id, now)
      else count(progress.state)
      countSold(exchange, meters)
    },
    async save(progress, now) {
      await payments.save(progress, now)
      if (progress.state === 'owed') owed(progress.id, now)
      else ended(progress.id, progress.state, now)
    },
    async voidRunning(error, now) {
      const lost = await payments.voidRunning(error, now)
      if (lost > 0) count('voided', lost)
      return lost
    },
  }
}

export function meteredExchanges(exchanges: Exchanges, meters: Meters): Exchanges {
  return {
    ...exchanges,
    async record(exchange) {
      await exchanges.record(exchange)
      countSold(exchange, meters)
    },
  }
}

export function meteredPurchases(purchases: Purchases, meters: Meters): Purchases {
  const count = (state: string) => meters.count(meterNames.payments, { direction: 'out', state })
  return {
    ...purchases,
    async reserve(order, reservation, budget) {
      const outcome = await purchases.reserve(order, reservation, budget)
      if (outcome === 'reserved') count('reserved')
      return outcome
    },
    async finish(order, paid) {
      await purchases.finish(order, paid)
      meters.count(meterNames.executions, { side: 'ordered', result: order.status })
      if (paid !== undefined) count('spent')
    },
    async resolve(paymentId, state, txHash, now) {
      const orderId = await purchases.resolve(paymentId, state, txHash, now)
      if (orderId !== undefined) count(state)
      return orderId
    },
    async confirm(paymentId, txHash, now) {
      const orderId = await purchases.confirm(paymentId, txHash, now)
      if (orderId !== undefined) count('paid')
      return orderId
    },
    async giveBack(paymentId, now) {
      const orderId = await purchases.giveBack(paymentId, now)
      if (orderId !== undefined) count('released')
      return orderId
    },
    async takeBack(charged, now) {
      const orderId = await purchases.takeBack(charged, now)
      if (orderId !== undefined) count('paid')
      return orderId
    },
  }
}

/** Counts runs for peers only. Tasks from this node's own API are counted as orders. */
function countSold({ callerId, error, durationMs }: NewExchange, meters: Meters): void {
  if (isLocalCaller(callerId)) return
  meters.count(meterNames.executions, { side: 'sold', result: error === undefined ? 'completed' : 'failed' })
  meters.observe(meterNames.executionSeconds, durationMs / 1000)
}
