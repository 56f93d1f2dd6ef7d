import fc from 'fast-check'
import { expect, test } from 'vitest'
import { explain, pointsOf, type Signals, scoreOf } from './ranking.ts'

const plain: Signals = {
  fit: 0.5,
  named: false,
  price: 10_000,
  presence: undefined,
  ageMs: 3_600_000,
  measured: undefined,
  isLookAlike: false,
}
const score = (changes: Partial<Signals> = {}) => scoreOf(pointsOf({ ...plain, ...changes }))

const signals: fc.Arbitrary<Signals> = fc.record({
  fit: fc.option(fc.double({ min: 0, max: 1 }), { nil: undefined }),
  named: fc.boolean(),
  price: fc.nat(1e12),
  presence: fc.constantFrom(undefined, { online: true }, { online: true, latencyMs: 30 }),
  ageMs: fc.integer({ min: -200_000, max: 100_000_000 }),
  measured: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
  isLookAlike: fc.boolean(),
})

test('a seller that does not answer ranks below every seller that may', () => {
  fc.assert(
    fc.property(signals, signals, (one, other) => {
      const offline = scoreOf(pointsOf({ ...one, presence: { online: false } }))
      expect(offline).toBeLessThan(scoreOf(pointsOf(other)))
    }),
  )
})

test('online ranks above unknown, and near above far', () => {
  const near = score({ presence: { online: true, latencyMs: 10 } })
  const far = score({ presence: { online: true, latencyMs: 5000 } })
  expect(near).toBeGreaterThan(far)
  expect(far).toBeGreaterThan(score())
  expect(score()).toBeGreaterThan(score({ presence: { online: false, latencyMs: 1 } }))
})

test('the better fit ranks first, the typed name above all, and of equal fits the cheaper and fresher', () => {
  expect(score({ fit: 0.6 })).toBeGreaterThan(score())
  expect(score({ named: true, fit: 0 })).toBeGreaterThan(score({ fit: 1 }))
  expect(score({ price: 0 })).toBeGreaterThan(score({ price: 100 }))
  expect(score({ price: 1000 })).toBeGreaterThan(score({ price: 100_000 }))
  expect(score({ ageMs: 0 })).toBeGreaterThan(score())
  expect(score({ measured: 0.9 })).toBeGreaterThan(score())
  expect(score({ measured: 0.1 })).toBeLessThan(score())
})

test('T3 an imitation does not pass its original by a lower price', () => {
  expect(score({ isLookAlike: true, price: 0, ageMs: 0 })).toBeLessThan(score({ price: 1_000_000 }))
})

test('the reasons add up to the score, and no input makes it anything but a number', () => {
  fc.assert(
    fc.property(signals, (given) => {
      const { score: total, reasons } = explain(given, 'here')
      expect(Number.isFinite(total)).toBe(true)
      expect(reasons.reduce((sum, { points }) => sum + points, 0)).toBeCloseTo(total, 2)
    }),
  )
  for (const odd of [Number.NaN, Number.POSITIVE_INFINITY, -1]) {
    expect(score({ fit: odd, measured: odd, ageMs: odd, presence: { online: true, latencyMs: odd } })).not.toBeNaN()
  }
})

test('the reasons are given in words', () => {
  const { reasons } = explain({ ...plain, presence: { online: true, latencyMs: 12.4 } }, '“a” in its name')
  expect(reasons.map(({ signal, detail }) => `${signal}: ${detail}`)).toEqual([
    'text: “a” in its name',
    'presence: online, 12 ms away',
    'price: 0.01 USDC',
    'freshness: confirmed 60 min ago',
    'measured: not used yet',
  ])
  expect(explain({ ...plain, fit: undefined }, '').reasons.map(({ signal }) => signal)).not.toContain('text')
})
