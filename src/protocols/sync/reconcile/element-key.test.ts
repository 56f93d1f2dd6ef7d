import fc from 'fast-check'
import { expect, test } from 'vitest'
import { boundAt, boundBetween, compareKeys, END, elementKey, START, TIME_MAX, timeOf } from './element-key.ts'

const hash = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex'))
const time = fc.oneof(
  fc.integer({ min: 0, max: TIME_MAX }),
  fc.integer({ min: 0, max: 50 }).map((step) => 1.8e12 + step),
)
const key = fc.tuple(time, hash).map(([at, of]) => elementKey(at, of))

test('keys are ordered by time, then by hash (property)', () => {
  fc.assert(
    fc.property(time, hash, time, hash, (timeA, hashA, timeB, hashB) => {
      const expected = timeA - timeB || (hashA.slice(0, 32) < hashB.slice(0, 32) ? -1 : 1)
      if (timeA === timeB && hashA.slice(0, 32) === hashB.slice(0, 32)) return
      expect(Math.sign(compareKeys(elementKey(timeA, hashA), elementKey(timeB, hashB)))).toBe(Math.sign(expected))
    }),
  )
})

test('a key tells its time and lies between start and end (property)', () => {
  fc.assert(
    fc.property(time, hash, (at, of) => {
      const made = elementKey(at, of)
      expect(timeOf(made)).toBe(at)
      expect(compareKeys(START, made)).toBeLessThanOrEqual(0)
      expect(compareKeys(made, END)).toBeLessThan(0)
    }),
  )
})

test('a bound between two keys is above the one and not above the other (property)', () => {
  fc.assert(
    fc.property(key, key, (a, b) => {
      const [below, above] = compareKeys(a, b) < 0 ? [a, b] : [b, a]
      if (compareKeys(below, above) === 0) return
      const bound = boundBetween(below, above)
      expect(compareKeys(below, bound)).toBeLessThan(0)
      expect(compareKeys(bound, above)).toBeLessThanOrEqual(0)
    }),
  )
})

test('a bound is the roundest time there is between, and names no more of a hash than it must', () => {
  const [low, high] = ['00'.repeat(32), `00ff${'07'.repeat(30)}`]
  expect(boundBetween(elementKey(1000, low), elementKey(1030, low))).toEqual(boundAt(1024))
  const bound = boundBetween(elementKey(1000, low), elementKey(1000, high))
  expect(Buffer.from(bound).toString('hex')).toBe(`0000000003e800ff${'00'.repeat(14)}`)
})

test.each([-1, 0.5, Number.NaN, TIME_MAX + 1])('no element has the time %d', (at) => {
  expect(() => elementKey(at, 'ab'.repeat(32))).toThrow(RangeError)
})

test.each(['', 'ab', 'zz'.repeat(32)])('%j is no hash', (of) => {
  expect(() => elementKey(0, of)).toThrow(RangeError)
})
