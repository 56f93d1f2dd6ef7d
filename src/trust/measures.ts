import type { BoundedMap } from '../lib/bounded-map.ts'
import { type Clock, isoTime, type UnixMs } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import { formatPrice } from '../schema/amount.ts'
import type { AgentStats } from '../schema/standing.ts'
import { x402Errors } from '../schema/x402.ts'
import type { LedgerListener } from '../store/ledger-changes.ts'
import { LATENCIES_MAX, type Measure, type MeasureStore } from '../store/measures.ts'
import type { Order, Purchases } from '../store/purchases.ts'

/** A crash loses the measurements of this time. */
const SAVE_MS = 5_000

/** Error codes that a seller answered or caused. All other codes come from this node, its caller or its budget. */
const ANSWERED: ReadonlySet<string> = new Set([...Object.keys(x402Errors), 'LISTING_MISMATCH'])
const SILENT: ReadonlySet<string> = new Set([
  'SELLER_UNREACHABLE',
  'SELLER_FAILED',
  'PEER_UNREACHABLE',
  'PROTOCOL_UNSUPPORTED',
  'DEADLINE',
])

type MeasuresDeps = { store: MeasureStore; clock: Clock; logger: Logger }

/** What this node itself saw of the agents that it called. Ranking, rating and the operator use the measures. */
export interface Measures {
  /** Counts an ended order. `latencyMs`: set if a caller waited for the whole order. */
  ended(order: Order, latencyMs?: number): void
  settled(agentId: string, amount: bigint): void
  stats(agentId: string): AgentStats
  /** The counts alone: a call on a channel asks for them. */
  counts(agentId: string): Pick<AgentStats, 'calls' | 'success_rate'>
  /** Share of successful calls, from 0 to 1, with a prior for few calls. Undefined if the agent was never called. */
  share(agentId: string): { share: number; detail: string } | undefined
  readonly service: Service
}

export function createMeasures({ store, clock, logger }: MeasuresDeps): Measures {
  let known: BoundedMap<string, Measure> | undefined
  const changed = new Set<string>()
  const all = () => (known ??= store.all())

  function change(agentId: string, update: (measure: Measure) => void): void {
    const measures = all()
    const measure = measures.get(agentId) ?? { calls: 0, succeeded: 0, volume: 0n, lastSeen: undefined, latencies: [] }
    update(measure)
    measures.set(agentId, measure)
    changed.add(agentId)
  }

  async function save(): Promise<void> {
    const measures = [...changed].flatMap((agentId) => {
      const measure = all().get(agentId)
      return measure === undefined ? [] : [[agentId, measure] as const]
    })
    changed.clear()
    if (measures.length === 0) return
    await store.save(measures).catch((error: unknown) => {
      for (const [agentId] of measures) changed.add(agentId)
      throw error
    })
  }
  const onError = (error: unknown) => logger.warn({ err: error }, 'could not store the measurements of sellers')
  const saving = periodic({ name: 'measures', firstMs: SAVE_MS, everyMs: SAVE_MS }, { work: save, onError })

  return {
    ended(order, latencyMs) {
      const code = order.status === 'failed' ? order.error?.code : undefined
      const answered = order.status === 'completed' || (code !== undefined && ANSWERED.has(code))
      if (!answered && (code === undefined || !SILENT.has(code))) return
      change(order.agentId, (measure) => {
        measure.calls++
        if (answered) measure.lastSeen = Math.max(measure.lastSeen ?? 0, clock.now())
        if (order.status !== 'completed') return
        measure.succeeded++
        if (latencyMs === undefined) return
        measure.latencies.push(Math.max(0, Math.round(latencyMs)))
        if (measure.latencies.length > LATENCIES_MAX) measure.latencies.shift()
      })
    },
    settled: (agentId, amount) =>
      change(agentId, (measure) => {
        measure.volume += amount
      }),
    stats: (agentId) => statsOf(all().get(agentId)),
    counts: (agentId) => countsOf(all().get(agentId)),
    share(agentId) {
      const measure = all().get(agentId)
      return measure === undefined || measure.calls === 0 ? undefined : judged(measure)
    },
    service: {
      ...saving,
      async stop() {
        await saving.stop()
        await save().catch(onError)
      },
    },
  }
}

/**
 * Measures each outcome of an order.
 *
 * @param purchases read, but for orders that end
 * @param isAwaited true if a caller waits for the order. The duration of other orders says nothing about their seller.
 */
export function measuring(
  measures: Pick<Measures, 'ended' | 'settled'>,
  { purchases, logger }: { purchases: Pick<Purchases, 'reservationOf'>; logger: Logger },
  isAwaited: (orderId: string) => boolean,
): LedgerListener {
  async function settled(orderId: string, isShown: boolean): Promise<void> {
    const made = await purchases.reservationOf(orderId)
    if (made !== undefined) measures.settled(made.agentId, isShown ? made.amount : -made.amount)
  }

  return (change) => {
    if (change.record === 'order' && change.ended !== undefined) {
      measures.ended(change.ended, isAwaited(change.id) ? durationOf(change.ended) : undefined)
    } else if (change.record === 'reservation' && change.isShown !== undefined) {
      if (change.paid !== undefined) measures.settled(change.paid.agentId, change.paid.amount)
      else
        settled(change.orderId, change.isShown).catch((error: unknown) => {
          logger.warn({ order_id: change.orderId, err: error }, 'what a seller was paid could not be measured')
        })
    }
  }
}

function durationOf({ startedAt, createdAt, updatedAt }: Order): UnixMs {
  return updatedAt - (startedAt ?? createdAt)
}

/** Adds one success and one failure to the counts, so that one good call weighs less than a hundred. */
function judged({ calls, succeeded, latencies }: Measure): { share: number; detail: string } {
  const p50 = quantile(sortedOf(latencies), 0.5)
  const well = `${Math.floor((100 * succeeded) / calls)} % of ${calls} ${calls === 1 ? 'call' : 'calls'} succeeded`
  const detail = p50 === null ? well : `${well}, ${p50 < 1000 ? `${p50} ms` : `${(p50 / 1000).toFixed(1)} s`} each`
  return { share: (succeeded + 1) / (calls + 2), detail }
}

function countsOf(measure: Measure | undefined): Pick<AgentStats, 'calls' | 'success_rate'> {
  const { calls = 0, succeeded = 0 } = measure ?? {}
  return { calls, success_rate: calls === 0 ? null : Math.round((succeeded / calls) * 1e4) / 1e4 }
}

function statsOf(measure: Measure | undefined): AgentStats {
  const { volume = 0n, lastSeen, latencies = [] } = measure ?? {}
  const sorted = sortedOf(latencies)
  return {
    ...countsOf(measure),
    p50_ms: quantile(sorted, 0.5),
    p95_ms: quantile(sorted, 0.95),
    last_seen: lastSeen === undefined ? null : isoTime(lastSeen),
    settled_volume: formatPrice(volume),
    settled_volume_atomic: volume.toString(),
  }
}

/** An array of numbers sorts without a comparison in JavaScript. */
const sortedOf = (latencies: readonly number[]) => Float64Array.from(latencies).sort()

/** Returns a quantile by the nearest-rank method. */
function quantile(sorted: Float64Array, share: number): number | null {
  if (sorted.length === 0) return null
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!
}
