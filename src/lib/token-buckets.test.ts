import { expect, test } from 'vitest'
import { TokenBuckets } from './token-buckets.ts'

const buckets = () => new TokenBuckets({ burst: 3, perSecond: 1, keysMax: 2 })

test('a key spends its burst and then what it earns', () => {
  const limits = buckets()
  expect(limits.take('a', 2, 0)).toBe(true)
  expect(limits.take('a', 2, 0)).toBe(false)
  expect(limits.take('a', 1, 0)).toBe(true)
  expect(limits.has('a', 1, 999)).toBe(false)
  expect(limits.take('a', 1, 1000)).toBe(true)
  expect(limits.take('a', 4, 1_000_000)).toBe(false)
  expect(limits.take('a', 3, 1_000_000)).toBe(true)
})

test('what is given back can be spent again, and fills no bucket over its burst', () => {
  const limits = buckets()
  limits.take('a', 3, 0)
  limits.give('a', 2, 0)
  expect(limits.take('a', 3, 0)).toBe(false)
  expect(limits.take('a', 2, 0)).toBe(true)
  limits.give('a', 9, 0)
  expect(limits.has('a', 4, 0)).toBe(false)
})

test('one key does not pay for another', () => {
  const limits = buckets()
  limits.drain('a', 0)
  expect(limits.has('a', 1, 0)).toBe(false)
  expect(limits.has('b', 3, 0)).toBe(true)
})

test('a clock that is set back neither earns nor blocks', () => {
  const limits = buckets()
  limits.drain('a', 10_000)
  expect(limits.has('a', 1, 5_000)).toBe(false)
  limits.drain('a', 5_000)
  expect(limits.has('a', 1, 6_000)).toBe(true)
})

test('T16 whoever had spent all as the clock was set back earns again from then on', () => {
  const limits = buckets()
  limits.drain('a', 3_600_000)
  expect(limits.take('a', 1, 0)).toBe(false)
  expect(limits.take('a', 1, 1_000)).toBe(true)
})

test('keys are bounded: the longest unused is forgotten', () => {
  const limits = buckets()
  for (const key of ['a', 'b', 'c']) limits.drain(key, 0)
  expect(limits.has('a', 3, 0)).toBe(true)
  expect(limits.has('b', 1, 0)).toBe(false)
})
