import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, isoTime, type UnixMs } from '../lib/clock.ts'
import { formatAmount } from '../schema/amount.ts'
import type { Book } from '../schema/book.ts'
import type { Stats } from '../schema/ledger.ts'
import type { ExecutionFact, Ledger, LedgerDirection, PaymentFact } from '../store/ledger.ts'
import type { PaymentState } from '../store/payments.ts'
import type { ReservationState } from '../store/purchases.ts'
import { madeBook, receivedBook } from './payment-view.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const HOUR_MS = 60 * 60 * 1000
/** After this no reorganization takes a settlement back. */
const SETTLED_MS = 2 * HOUR_MS
const MONTH_DAYS = 30
const HOURS_SHOWN = 48
/** Rows read at a time: the event loop goes on between two reads. */
const BATCH_ROWS = 500
/** Latency is told of an agent's latest runs. */
const DURATIONS_MAX = 200

type Day = { earned: bigint; paid: bigint; executions: number; failed: number; bought: number }
type Hour = { executions: number; failed: number }
type AgentSums = { calls: number; failed: number; earned: bigint; durations: number[]; lastAt: UnixMs }

/** What has been counted. Days and hours are numbers since 1970, UTC. */
class Sums {
  readonly days = new Map<number, Day>()
  readonly hours = new Map<number, Hour>()
  readonly agents = new Map<string, AgentSums>()
  readonly open = { held: none(), owed: none(), lost: none(), refused: none(), not_charged: none() }
  /** Of these what tokens asked for, by token (D48). */
  readonly owned = new Map<string, Sums>()

  day(at: UnixMs): Day {
    return getOr(this.days, Math.floor(at / DAY_MS), () => ({
      earned: 0n,
      paid: 0n,
      executions: 0,
      failed: 0,
      bought: 0,
    }))
  }

  hour(at: UnixMs): Hour {
    return getOr(this.hours, Math.floor(at / HOUR_MS), () => ({ executions: 0, failed: 0 }))
  }

  agent(id: string): AgentSums {
    return getOr(this.agents, id, () => ({ calls: 0, failed: 0, earned: 0n, durations: [], lastAt: 0 }))
  }

  addPayment(direction: LedgerDirection, { owner, ...fact }: PaymentFact): void {
    if (owner !== undefined) getOr(this.owned, owner, () => new Sums()).addPayment(direction, fact)
    const { amount, createdAt, agentId } = fact
    const book = bookOf(direction, fact)
    if (book === 'earned') {
      this.day(createdAt).earned += amount
      this.agent(agentId).earned += amount
    } else if (book === 'paid') this.day(createdAt).paid += amount
    // What was voided or is running at the seller is no sum of its own.
    else if (direction === 'out' || (book !== 'held' && book !== 'not_charged')) addTo(this.open[book], amount)
    if (direction === 'out' && book !== 'not_charged') this.day(createdAt).bought += 1
  }

  addExecution({ owner, ...fact }: ExecutionFact): void {
    if (owner !== undefined) getOr(this.owned, owner, () => new Sums()).addExecution(fact)
    const { agentId, failed, createdAt, durationMs } = fact
    const agent = this.agent(agentId)
    agent.calls += 1
    agent.lastAt = Math.max(agent.lastAt, createdAt)
    agent.durations.push(durationMs)
    if (agent.durations.length > DURATIONS_MAX) agent.durations.shift()
    for (const counted of [this.day(createdAt), this.hour(createdAt)]) {
      counted.executions += 1
      if (failed) counted.failed += 1
    }
    if (failed) agent.failed += 1
  }

  /** Lets go of hours that are shown no more. */
  forget(oldestHour: number): void {
    for (const hour of this.hours.keys()) if (hour < oldestHour) this.hours.delete(hour)
    for (const sums of this.owned.values()) sums.forget(oldestHour)
  }
}

export type EarningsDeps = {
  clock: Clock
  ledger: Pick<Ledger, 'paymentFacts' | 'executionFacts'>
  decimals: number
  /** Of an agent that is known. */
  nameOf(agentId: string): string | undefined
}

/** What a node has earned, spent and done, summed up. */
export interface Earnings {
  /** `owner`: of what this token asked for alone. */
  stats(options: { days: number; owner?: string | undefined }): Promise<Stats>
}

/**
 * Sums over the ledgers. What can no longer change is counted once and kept; from the first payment on that still can, all
 * are counted anew at each question. Nothing is written for it: a paid call costs what it did.
 */
export function createEarnings(deps: EarningsDeps): Earnings {
  const { ledger, clock } = deps
  const kept = new Sums()
  const counted = { in: 0, out: 0, executions: 0 }
  let counting: Promise<unknown> = Promise.resolve()

  async function countPayments(direction: LedgerDirection, open: Sums): Promise<void> {
    let after = counted[direction]
    let isFinalSoFar = true
    for (;;) {
      const facts = ledger.paymentFacts(direction, after, BATCH_ROWS)
      for (const fact of facts) {
        isFinalSoFar &&= isFinal(fact, clock.now())
        if (isFinalSoFar) counted[direction] = fact.no
        ;(isFinalSoFar ? kept : open).addPayment(direction, fact)
      }
      if (facts.length < BATCH_ROWS) return
      after = facts.at(-1)!.no
      await nextTurn()
    }
  }

  async function countExecutions(): Promise<void> {
    for (;;) {
      const facts = ledger.executionFacts(counted.executions, BATCH_ROWS)
      for (const fact of facts) kept.addExecution(fact)
      if (facts.length === 0) return
      counted.executions = facts.at(-1)!.no
      await nextTurn()
    }
  }

  async function count(): Promise<Sums[]> {
    const open = new Sums()
    await countPayments('in', open)
    await countPayments('out', open)
    await countExecutions()
    kept.forget(Math.floor(clock.now() / HOUR_MS) - HOURS_SHOWN)
    return [kept, open]
  }

  return {
    async stats({ days, owner }) {
      // One after the other: two at once would count the same rows twice.
      const parts = counting.then(count)
      counting = parts.catch(() => {})
      const all = await parts
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
    days: daySums
      .filter(({ number }) => number > today - days)
      .map(({ number, earned, paid, executions, failed, bought }) => ({
        day: isoTime(number * DAY_MS).slice(0, 10),
        ...{ earned: text(earned), earned_atomic: earned.toString() },
        ...{ paid: text(paid), paid_atomic: paid.toString() },
        ...{ executions, failed, bought },
      })),
    hours: parts
      .flatMap((sums) => [...sums.hours])
      .filter(([number]) => number > oldestHour)
      .sort(([a], [b]) => a - b)
      .map(([number, { executions, failed }]) => ({ hour: isoTime(number * HOUR_MS), executions, failed })),
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

function mergedDay(parts: readonly Sums[], number: number): Day {
  const merged: Day = { earned: 0n, paid: 0n, executions: 0, failed: 0, bought: 0 }
  for (const sums of parts) {
    const day = sums.days.get(number)
    if (day === undefined) continue
    merged.earned += day.earned
    merged.paid += day.paid
    merged.executions += day.executions
    merged.failed += day.failed
    merged.bought += day.bought
  }
  return merged
}

/** The ones that earned most first. */
function agentsOf(parts: readonly Sums[]): [string, AgentSums][] {
  const merged = new Map<string, AgentSums>()
  for (const [id, sums] of parts.flatMap((part) => [...part.agents])) {
    const before = merged.get(id)
    merged.set(
      id,
      before === undefined
        ? sums
        : {
            calls: before.calls + sums.calls,
            failed: before.failed + sums.failed,
            earned: before.earned + sums.earned,
            durations: [...before.durations, ...sums.durations],
            lastAt: Math.max(before.lastAt, sums.lastAt),
          },
    )
  }
  return [...merged].sort(([, a], [, b]) => (a.earned === b.earned ? b.calls - a.calls : a.earned < b.earned ? 1 : -1))
}

function none(): { amount: bigint; payments: number } {
  return { amount: 0n, payments: 0 }
}

/** The word of the books for a payment (D42). */
function bookOf(direction: LedgerDirection, { state, proven }: PaymentFact): Book {
  if (direction === 'in') return receivedBook({ state: state as PaymentState, ran: proven })
  return madeBook({ state: state as ReservationState, confirmation: proven ? 'chain' : 'awaited' })
}

/**
 * Whether a payment can no longer change in what is counted of it. One that failed may be tried again while its window is
 * open; the chain may take back what it has just shown, and has yet to show what is spent.
 */
function isFinal({ state, proven, createdAt }: PaymentFact, now: UnixMs): boolean {
  if (state === 'unsettled') return now - createdAt > DAY_MS
  if (state === 'settled') return now - createdAt > SETTLED_MS
  if (state === 'spent') return proven
  return state !== 'authorized' && state !== 'owed' && state !== 'reserved'
}

function addTo(sum: { amount: bigint; payments: number }, amount: bigint): void {
  sum.amount += amount
  sum.payments += 1
}

function getOr<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key)
  if (value === undefined) {
    value = make()
    map.set(key, value)
  }
  return value
}
