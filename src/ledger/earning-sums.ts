import type { UnixMs } from '../lib/clock.ts'
import { getOr } from '../lib/get-or.ts'
import type { Book } from '../schema/book.ts'
import type { Door } from '../schema/door.ts'
import type { ExecutionFact } from '../store/ledger-reader.ts'
import type { LedgerDirection, PaymentFact, PaymentSum } from '../store/payment-facts.ts'
import type { PaymentState } from '../store/payments.ts'
import type { ReservationState } from '../store/purchases.ts'
import { madeBook, receivedBook } from './payment-view.ts'

export const DAY_MS = 24 * 60 * 60 * 1000
export const HOUR_MS = 60 * 60 * 1000
/** Runs per agent that latency figures cover: the latest. */
const DURATIONS_MAX = 200

type Hour = { earned: bigint; paid: bigint; executions: number; failed: number }
type Day = Hour & { bought: number }
type SummedPayments = Omit<PaymentSum, 'last' | 'newestAt'>
type DoorSums = { calls: number; earned: bigint }
type AgentSums = { calls: number; failed: number; earned: bigint; durations: number[]; lastAt: UnixMs }

/** Sums counted so far. The keys of `days` and `hours` count days and hours since 1970, UTC. */
export class Sums {
  readonly days = new Map<number, Day>()
  readonly hours = new Map<number, Hour>()
  readonly agents = new Map<string, AgentSums>()
  /** What was sold at each door. */
  readonly doors = new Map<Door, DoorSums>()
  readonly open = { held: none(), owed: none(), lost: none(), refused: none(), not_charged: none(), refunded: none() }
  /** The part of these sums that each token requested, by token id (D48). */
  readonly owned = new Map<string, Sums>()

  day(at: UnixMs): Day {
    return getOr(this.days, Math.floor(at / DAY_MS), noDay)
  }

  hour(at: UnixMs): Hour {
    return getOr(this.hours, Math.floor(at / HOUR_MS), noHour)
  }

  agent(id: string): AgentSums {
    return getOr(this.agents, id, () => ({ calls: 0, failed: 0, earned: 0n, durations: [], lastAt: 0 }))
  }

  addPayment(direction: LedgerDirection, { refundTx, createdAt, ...fact }: PaymentFact): void {
    this.addPayments(direction, { ...fact, refunded: refundTx !== undefined, slot: createdAt, payments: 1 })
  }

  addPayments(direction: LedgerDirection, { owner, ...sum }: SummedPayments): void {
    if (owner !== undefined) getOr(this.owned, owner, () => new Sums()).addPayments(direction, sum)
    const { amount, slot: createdAt, agentId, payments } = sum
    const book = bookOf(direction, sum)
    const door = sum.door && getOr(this.doors, sum.door, () => ({ calls: 0, earned: 0n }))
    // A run that failed sold nothing.
    if (door !== undefined && sum.proven && book !== 'not_charged') door.calls += payments
    if (door !== undefined && book === 'earned') door.earned += amount
    if (book === 'earned') {
      for (const counted of [this.day(createdAt), this.hour(createdAt)]) counted.earned += amount
      this.agent(agentId).earned += amount
    } else if (book === 'paid') {
      for (const counted of [this.day(createdAt), this.hour(createdAt)]) counted.paid += amount
    }
    // Received payments that are voided or still running are not summed.
    else if (direction === 'out' || (book !== 'held' && book !== 'not_charged')) addTo(this.open[book], sum)
    if (direction === 'out' && book !== 'not_charged') this.day(createdAt).bought += payments
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

  /** Drops hours that are no longer shown. */
  forget(oldestHour: number): void {
    for (const hour of this.hours.keys()) if (hour < oldestHour) this.hours.delete(hour)
    for (const sums of this.owned.values()) sums.forget(oldestHour)
  }
}

export function mergedDay(parts: readonly Sums[], number: number): Day {
  const merged = noDay()
  for (const sums of parts) {
    const day = sums.days.get(number)
    if (day === undefined) continue
    addHour(merged, day)
    merged.bought += day.bought
  }
  return merged
}

export function mergedDoor(parts: readonly Sums[], door: Door): DoorSums {
  const sums = parts.flatMap(({ doors }) => doors.get(door) ?? [])
  return sums.reduce((sum, one) => ({ calls: sum.calls + one.calls, earned: sum.earned + one.earned }), {
    ...{ calls: 0, earned: 0n },
  })
}

export function mergedHours(parts: readonly Sums[]): [number, Hour][] {
  const merged = new Map<number, Hour>()
  for (const [number, hour] of parts.flatMap((sums) => [...sums.hours])) {
    addHour(getOr(merged, number, noHour), hour)
  }
  return [...merged]
}

export function agentsOf(parts: readonly Sums[]): [string, AgentSums][] {
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
            durations: [...before.durations, ...sums.durations].slice(-DURATIONS_MAX),
            lastAt: Math.max(before.lastAt, sums.lastAt),
          },
    )
  }
  return [...merged].sort(([, a], [, b]) => (a.earned === b.earned ? b.calls - a.calls : a.earned < b.earned ? 1 : -1))
}

function addHour(sum: Hour, { earned, paid, executions, failed }: Hour): void {
  sum.earned += earned
  sum.paid += paid
  sum.executions += executions
  sum.failed += failed
}

const noHour = (): Hour => ({ earned: 0n, paid: 0n, executions: 0, failed: 0 })
const noDay = (): Day => ({ ...noHour(), bought: 0 })

function none(): { amount: bigint; payments: number } {
  return { amount: 0n, payments: 0 }
}

/** Classifies a payment as the books name it (D42). */
function bookOf(direction: LedgerDirection, { state, proven, refunded }: SummedPayments): Book {
  const refundTx = refunded ? '0x' : undefined
  if (direction === 'in') return receivedBook({ state: state as PaymentState, ran: proven, refundTx })
  return madeBook({ state: state as ReservationState, confirmation: proven ? 'chain' : 'awaited', refundTx })
}

function addTo(sum: { amount: bigint; payments: number }, { amount, payments }: SummedPayments): void {
  sum.amount += amount
  sum.payments += payments
}
