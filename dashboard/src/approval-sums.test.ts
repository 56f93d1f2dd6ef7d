import { expect, test } from 'vitest'
import { decimalText, leftAfter, sumOf } from './approval-sums.ts'

test('several approvals are summed exactly, and subtracted from the remaining budget', () => {
  const two = [{ amount_atomic: '100000' }, { amount_atomic: '200001' }]
  expect(sumOf(two)).toBe(300_001n)
  expect(leftAfter(two, { left_today_atomic: '300000' })).toBe(-1n)
  expect(leftAfter(two, { left_today_atomic: null })).toBeUndefined()
})

test('T18 atomic units are shown as exact decimal text', () => {
  expect([0n, 1n, 1_500_000n, -1_500_000n, 12_345_678_901_234n].map(decimalText)).toEqual([
    '0',
    '0.000001',
    '1.5',
    '-1.5',
    '12345678.901234',
  ])
})
