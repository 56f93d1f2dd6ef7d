import type { Stats } from './api/types.ts'
import type { Range } from './parts/chart-section.tsx'

export const HOUR_SECONDS = 3600
export const DAY_SECONDS = 86_400
const DAYS: Readonly<Record<Exclude<Range, '24h'>, number>> = { '7d': 7, '30d': 30 }

/** Calls and amounts of one hour or day. The API returns only slots with activity. */
export type Slot = Pick<Stats['hours'][number], 'earned_atomic' | 'paid_atomic' | 'executions' | 'failed'>
export type Slots = { times: number[]; seconds: number; slots: Slot[] }

const nothing: Slot = { earned_atomic: '0', paid_atomic: '0', executions: 0, failed: 0 }

/** The latest hours or days of a range, oldest first, with empty slots included. */
export function slotsOf({ hours, days }: Pick<Stats, 'hours' | 'days'>, range: Range, now = Date.now()): Slots {
  const known = new Map<number, Slot>()
  const seconds = range === '24h' ? HOUR_SECONDS : DAY_SECONDS
  if (range === '24h') for (const hour of hours) known.set(Date.parse(hour.hour) / 1000, hour)
  else for (const day of days) known.set(Date.parse(`${day.day}T00:00:00Z`) / 1000, day)
  const count = range === '24h' ? 24 : DAYS[range]
  const last = Math.floor(now / 1000 / seconds) * seconds
  const times = Array.from({ length: count }, (_, index) => last - (count - 1 - index) * seconds)
  return { times, seconds, slots: times.map((time) => known.get(time) ?? nothing) }
}

/** Sums are exact, in atomic units. */
export function totalOf(slots: readonly Slot[]) {
  let [earned, paid, executions, failed] = [0n, 0n, 0, 0]
  for (const slot of slots) {
    earned += BigInt(slot.earned_atomic)
    paid += BigInt(slot.paid_atomic)
    executions += slot.executions
    failed += slot.failed
  }
  return { earned, paid, executions, failed }
}
