import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, isoTime, type UnixMs, utcDay } from '../lib/clock.ts'
import { createLane } from '../lib/lane.ts'
import { formatAmount } from '../schema/amount.ts'
import { doors } from '../schema/door.ts'
import type { Stats } from '../schema/ledger.ts'
import type { LedgerReader } from '../store/ledger-reader.ts'
import type { LedgerDirection, PaymentFact } from '../store/payment-facts.ts'
import { agentsOf, DAY_MS, HOUR_MS, mergedDay, mergedDoor, mergedHours, Sums } from './earning-sums.ts'

/** After this time no reorganization is expected to undo a settlement. */
const SETTLED_MS = 2 * HOUR_MS
const MONTH_DAYS = 30
const HOURS_SHOWN = 48
/** Rows get their numbers before they are committed. When a row is this old, all rows with lower numbers are there. */
const IN_ORDER_MS = 2 * 60 * 1000
/** Rows per read. The event loop runs between two reads. */
const BATCH_ROWS = 500
/** Rows per sum that the ledger computes. More would keep the event loop waiting where the ledger is SQLite. */
const SUM_ROWS = 4_000

type EarningsDeps = {
  clock: Clock
  ledger: Pick<LedgerReader, 'paymentFacts' | 'paymentSums' | 'executionFacts' | 'revisions'>
  decimals: number
  nameOf(agentId: string): string | undefined
}

export interface Earnings {
  /** `owner`: count only what this token requested. */
  stats(options: { days: number; owner?: string | undefined }): Promise<Stats>
}

/**
 * Computes sums over the ledgers. Final payments are counted once and cached, until the ledger reports that a final
 * payment changed. From the first payment that is not final, all are counted again at each request. Nothing is written
 * to the store. The ledger sums up some thousand payments at a time, so a large one is not read row by row.
 */
export function createEarnings(deps: EarningsDeps): Earnings {
  const { ledger, clock } = deps
  let kept = new Sums()
  const counted = { in: 0, out: 0, executions: 0 }
  // One count at a time: two would count the same rows twice.
  const inTurn = createLane()

  async function countPayments(direction: LedgerDirection, open: Sums): Promise<void> {
    let after = counted[direction]
    let isFinalSoFar = true
    for (;;) {
      const now = clock.now()
      const hoursSince = (Math.floor(now / HOUR_MS) - HOURS_SHOWN) * HOUR_MS
      const sums = await ledger.paymentSums(direction, after, { limit: SUM_ROWS, hoursSince })
      const last = Math.max(after, ...sums.map((sum) => sum.last))
      const areFinal = sums.every(({ newestAt, ...sum }) => isFinal({ ...sum, createdAt: newestAt }, now))
      if (isFinalSoFar && !areFinal) {
        await countOneByOne(direction, { after, last }, open)
        isFinalSoFar = false
      } else {
        if (isFinalSoFar) counted[direction] = last
        for (const sum of sums) (isFinalSoFar ? kept : open).addPayments(direction, sum)
      }
      if (sums.reduce((count, { payments }) => count + payments, 0) < SUM_ROWS) return
      after = last
      await nextTurn()
    }
  }

  /** Counts the group of payments that contains the first one that is not final. */
  async function countOneByOne(
    direction: LedgerDirection,
    { after, last }: { after: number; last: number },
    open: Sums,
  ): Promise<void> {
    let isFinalSoFar = true
    for (let from = after; from < last; ) {
      const facts = (await ledger.paymentFacts(direction, from, BATCH_ROWS)).filter(({ no }) => no <= last)
      for (const fact of facts) {
        isFinalSoFar &&= isFinal(fact, clock.now())
        if (isFinalSoFar) counted[direction] = fact.no
        ;(isFinalSoFar ? kept : open).addPayment(direction, fact)
      }
      from = facts.at(-1)?.no ?? last
      await nextTurn()
    }
  }

  async function countExecutions(open: Sums): Promise<void> {
    let after = counted.executions
    let isFinalSoFar = true
    for (;;) {
      const facts = await ledger.executionFacts(after, BATCH_ROWS)
      for (const fact of facts) {
        isFinalSoFar &&= clock.now() - fact.createdAt - fact.durationMs > IN_ORDER_MS
        if (isFinalSoFar) counted.executions = fact.no
        ;(isFinalSoFar ? kept : open).addExecution(fact)
      }
      if (facts.length < BATCH_ROWS) return
      after = facts.at(-1)!.no
      await nextTurn()
    }
  }

  let revisions = 0
  async function count(): Promise<Sums[]> {
    const revised = await ledger.revisions()
    if (revised !== revisions) {
      kept = new Sums()
      Object.assign(counted, { in: 0, out: 0, executions: 0 })
      revisions = revised
    }
    const open = new Sums()
    await countPayments('in', open)
    await countPayments('out', open)
    await countExecutions(open)
    kept.forget(Math.floor(clock.now() / HOUR_MS) - HOURS_SHOWN)
    return [kept, open]
  }

  return {
    async stats({ days, owner }) {
      const all = await inTurn(count)
      const shown = owner === undefined ? all : all.map(({ owned }) => owned.get(owner) ?? new Sums())
      return statsOf(shown, { days, now: clock.now() }, deps)
    },
  }
}

function statsOf(
  parts: readonly Sums[],
  { days, now }: { days: number; now: UnixMs },
  { decimals, nameOf }: Pick<EarningsDeps, 'decimals' | 'nameOf'>,
): Stats {
  const today = Math.floor(now / DAY_MS)
  const text = (amount: bigint) => formatAmount(amount, decimals)
  const both = ({ earned, paid }: { earned: bigint; paid: bigint }) => ({
    ...{ earned: text(earned), earned_atomic: earned.toString() },
    ...{ paid: text(paid), paid_atomic: paid.toString() },
  })
  const dayNumbers = [...new Set(parts.flatMap((sums) => [...sums.days.keys()]))].sort((a, b) => a - b)
  const daySums = dayNumbers.map((number) => ({ number, ...mergedDay(parts, number) }))
  const sumOf = (key: 'earned' | 'paid') => {
    const since = (first: number) => daySums.reduce((sum, day) => (day.number >= first ? sum + day[key] : sum), 0n)
    const [dayAmount, month, total] = [since(today), since(today - MONTH_DAYS + 1), since(0)]
    return {
      ...{ today: text(dayAmount), today_atomic: dayAmount.toString() },
      ...{ month: text(month), month_atomic: month.toString() },
      ...{ total: text(total), total_atomic: total.toString() },
    }
  }
  const open = (key: keyof Sums['open']) => {
    const amount = parts.reduce((sum, sums) => sum + sums.open[key].amount, 0n)
    const payments = parts.reduce((sum, sums) => sum + sums.open[key].payments, 0)
    return { amount: text(amount), amount_atomic: amount.toString(), payments }
  }
  const oldestHour = Math.floor(now / HOUR_MS) - HOURS_SHOWN
  return {
    earned: sumOf('earned'),
    owed: open('owed'),
    lost: open('lost'),
    refused: open('refused'),
    paid: sumOf('paid'),
    held: open('held'),
    not_charged: open('not_charged'),
    refunded: open('refunded'),
    days: daySums
      .filter(({ number }) => number > today - days)
      .map(({ number, executions, failed, bought, ...sums }) => ({
        day: utcDay(number * DAY_MS),
        ...{ ...both(sums), executions, failed, bought },
      })),
    hours: mergedHours(parts)
      .filter(([number]) => number > oldestHour)
      .sort(([a], [b]) => a - b)
      .map(([number, { executions, failed, ...sums }]) => ({
        hour: isoTime(number * HOUR_MS),
        ...{ ...both(sums), executions, failed },
      })),
    doors: doors.map((door) => {
      const { calls, earned } = mergedDoor(parts, door)
      return { door, calls, earned: text(earned), earned_atomic: earned.toString() }
    }),
    agents: agentsOf(parts).map(([agentId, sums]) => {
      const name = nameOf(agentId)
      const sorted = sums.durations.toSorted((a, b) => a - b)
      const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
      return {
        agent_id: agentId,
        ...(name !== undefined && { name }),
        calls: sums.calls,
        failed: sums.failed,
        earned: text(sums.earned),
        earned_atomic: sums.earned.toString(),
        ...(sorted.length > 0 && { p50_ms: at(0.5), p95_ms: at(0.95) }),
        ...(sums.lastAt > 0 && { last_at: isoTime(sums.lastAt) }),
      }
    }),
  }
}

/**
 * Returns true if the counted fields of a payment will hardly change. A failed payment may be retried while its
 * window is open. The chain may undo a recent settlement. A spent payment waits for the chain's confirmation.
 */
function isFinal(
  { state, proven, createdAt }: Pick<PaymentFact, 'state' | 'proven' | 'createdAt'>,
  now: UnixMs,
): boolean {
  if (now - createdAt <= IN_ORDER_MS) return false
  if (state === 'unsettled') return now - createdAt > DAY_MS
  if (state === 'settled') return now - createdAt > SETTLED_MS
  if (state === 'spent') return proven
  return state !== 'authorized' && state !== 'owed' && state !== 'reserved'
}
