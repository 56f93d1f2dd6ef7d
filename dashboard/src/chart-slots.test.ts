import { expect, test } from 'vitest'
import { slotsOf, totalOf } from './chart-slots.ts'

const now = Date.UTC(2026, 5, 15, 12, 30)
const slot = (earned_atomic: string, executions: number, failed = 0) => ({
  ...{ earned: '', earned_atomic, paid: '', paid_atomic: '5', executions, failed },
})
const stats = {
  hours: [
    { hour: '2026-06-14T12:00:00Z', ...slot('9', 9) },
    { hour: '2026-06-14T13:00:00Z', ...slot('1', 2, 1) },
    { hour: '2026-06-15T12:00:00Z', ...slot('9007199254740993', 3) },
  ],
  days: [
    { day: '2026-05-16', bought: 0, ...slot('100', 1) },
    { day: '2026-05-17', bought: 0, ...slot('10', 7) },
    { day: '2026-06-15', bought: 0, ...slot('1', 5, 2) },
  ],
}

test('a day is the latest 24 hours, including empty hours, and its sum is exact', () => {
  const { times, slots } = slotsOf(stats, '24h', now)
  expect([times.length, new Date(times[0]! * 1000).toISOString()]).toEqual([24, '2026-06-14T13:00:00.000Z'])
  expect(totalOf(slots)).toEqual({ earned: 9_007_199_254_740_994n, paid: 10n, executions: 5, failed: 1 })
})

test('longer ranges are UTC days of the node', () => {
  const { times, slots } = slotsOf(stats, '30d', now)
  expect([times.length, new Date(times[0]! * 1000).toISOString()]).toEqual([30, '2026-05-17T00:00:00.000Z'])
  expect(totalOf(slots)).toMatchObject({ earned: 11n, executions: 12, failed: 2 })
  expect(totalOf(slotsOf(stats, '7d', now).slots)).toMatchObject({ executions: 5 })
})
