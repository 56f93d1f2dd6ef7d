import { expect, test } from 'vitest'
import type { Channel } from './api/types.ts'
import { sharesOf, usdcText, withdrawalClock } from './channel-words.ts'

const channel = (balance: number, charged: number, claimed: number, signed: number) =>
  ({
    ...{ balance_atomic: `${balance}`, charged_atomic: `${charged}` },
    ...{ claimed_atomic: `${claimed}`, signed_atomic: `${signed}` },
  }) as Channel
const shares = (...sums: Parameters<typeof channel>) =>
  sharesOf(channel(...sums)).map(({ name, amount, percent }) => [name, amount, percent])

test('the deposits of a channel are divided without rest, and parts of nothing are left out', () => {
  expect(shares(100_000, 40_000, 10_000, 60_000)).toEqual([
    ['claimed', 10_000n, 10],
    ['unclaimed', 30_000n, 30],
    ['signed', 20_000n, 20],
    ['free', 40_000n, 40],
  ])
  expect(shares(100_000, 0, 0, 0)).toEqual([['free', 100_000n, 100]])
  expect(shares(0, 0, 0, 0)).toEqual([])
})

test('more that was charged or signed than a withdrawal has left does not make the whole larger', () => {
  expect(shares(50_000, 80_000, 50_000, 90_000)).toEqual([['claimed', 50_000n, 100]])
  expect(shares(50_000, 80_000, 20_000, 90_000)).toEqual([
    ['claimed', 20_000n, 40],
    ['unclaimed', 30_000n, 60],
  ])
})

test('a withdrawal has its clock', () => {
  const withdrawal = { ends_at: '2026-01-02T00:00:00.000Z' } as NonNullable<Channel['withdrawal']>
  expect(withdrawalClock(withdrawal, Date.UTC(2026, 0, 1))).toBe('can end in 1 d')
  expect(withdrawalClock(withdrawal, Date.UTC(2026, 0, 2) - 30_000)).toBe('can end at any moment')
  expect(withdrawalClock(withdrawal, Date.UTC(2026, 0, 3))).toBe('can end at any moment')
})

test.each([
  [0n, '0'],
  [1n, '0.000001'],
  [1_500_000n, '1.5'],
  [2_000_000n, '2'],
])('%s atomic units are %s USDC', (atomic, text) => {
  expect(usdcText(atomic)).toBe(text)
})
