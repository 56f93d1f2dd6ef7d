import { expect, test } from 'vitest'
import { daySpan } from './day-span.ts'

test('a day lasts from local midnight to the next midnight, also when the clocks change', () => {
  const { since, until } = daySpan('2026-03-29')
  expect([new Date(since!).getHours(), new Date(since!).getDate()]).toEqual([0, 29])
  expect([new Date(until!).getHours(), new Date(until!).getDate()]).toEqual([0, 30])
  expect(daySpan('2026-12-31').until).toBe(new Date(2027, 0, 1).toISOString())
})

test('text that is not a day sets no limit', () => {
  for (const text of [undefined, '', 'x', '2026-1-1']) expect(daySpan(text)).toEqual({})
})
