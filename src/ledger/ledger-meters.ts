import { BoundedMap } from '../lib/bounded-map.ts'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Meters } from '../lib/meters.ts'
import { isLocalCaller } from '../schema/caller.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import type { NewExchange } from '../store/exchanges.ts'
import type { LedgerListener, PaymentChange, ReservationChange } from '../store/ledger-changes.ts'

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

/** Counts the changes of the ledger in meters. A meter has the name of its metric. */
export function ledgerMeters(meters: Meters, clock: Clock): LedgerListener {
  const owedSince = new BoundedMap<string, UnixMs>(TIMED_MAX)
  const countReceived = (state: string, by?: number) =>
    meters.count(meterNames.payments, { direction: 'in', state }, by)

  function received({ id, from, to }: PaymentChange): void {
    // A final state that is undone or a detail that changes is not counted again.
    if (from !== undefined && from !== 'open') return
    const since = owedSince.get(id)
    if (to === 'owed') {
      if (since !== undefined) return
      owedSince.set(id, clock.now())
    } else owedSince.delete(id)
    countReceived(to)
    if (to === 'settled' && since !== undefined) {
      meters.observe(meterNames.settlementSeconds, (clock.now() - since) / 1000)
    }
  }

  return (change) => {
    if (change.record === 'payment') received(change)
    else if (change.record === 'execution') countSold(change.execution, meters)
    else if (change.record === 'interruption') countReceived('voided', change.payments)
    else if (change.record === 'reservation') countMade(change, meters)
    else if (change.record === 'order' && change.ended !== undefined) {
      meters.count(meterNames.executions, { side: 'ordered', result: change.ended.status })
    }
  }
}

/** Counts a purchase as `paid` when the chain shows the payment. */
function countMade({ from, to, isShown }: ReservationChange, meters: Meters): void {
  const isNewState = from !== to && from !== 'released'
  if (!isNewState && isShown !== true) return
  meters.count(meterNames.payments, { direction: 'out', state: isNewState ? to : 'paid' })
}

/** Counts runs for peers only. Tasks from this node's own API are counted as orders. */
function countSold({ callerId, error, durationMs }: NewExchange, meters: Meters): void {
  if (isLocalCaller(callerId)) return
  const result = error === undefined ? 'completed' : error === RUN_CANCELED ? 'cancelled' : 'failed'
  meters.count(meterNames.executions, { side: 'sold', result })
  meters.observe(meterNames.executionSeconds, durationMs / 1000)
}
