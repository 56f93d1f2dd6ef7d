import { expect, test } from 'vitest'
import { backoffMs, doubledMs } from './retry.ts'

const limits = { firstMs: 200, mostMs: 5_000 }

test('doubles with each failure, up to the limit', () => {
  expect([1, 2, 3, 6, 1_000].map((failures) => doubledMs(failures, limits))).toEqual([200, 400, 800, 5_000, 5_000])
})

test('spreads a back-off over its second half', () => {
  for (let tries = 0; tries < 100; tries++) {
    const ms = backoffMs(3, limits)
    expect(ms >= 400 && ms <= 800).toBe(true)
  }
})
