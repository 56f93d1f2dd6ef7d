import fc from 'fast-check'
import { expect, test } from 'vitest'
import { editDistance } from './edit-distance.ts'
import { isNear, soughtKeys, storedKeys, textKey } from './near-keys.ts'

const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'd'), minLength: 1, maxLength: 24 })

/** One random edit, swaps included. */
function edited(text: string, [kind, place, letter]: readonly [number, number, string]): string {
  const at = place % (text.length + 1)
  if (kind === 0) return text.slice(0, at) + letter + text.slice(at)
  if (kind === 1) return text.slice(0, at) + text.slice(at + 1)
  if (kind === 2) return text.slice(0, at) + letter + text.slice(at + 1)
  return (
    text.slice(0, at) +
    text
      .slice(at, at + 2)
      .split('')
      .reverse()
      .join('') +
    text.slice(at + 2)
  )
}
const edits = fc.array(fc.tuple(fc.nat(2), fc.nat(40), fc.constantFrom('a', 'b', 'x')), { maxLength: 2 })

/** The textbook's table, without a band. */
function distance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, j) => i + j))
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1
      let cost = Math.min(rows[i - 1]![j]! + 1, rows[i]![j - 1]! + 1, rows[i - 1]![j - 1]! + change)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, rows[i - 2]![j - 2]! + 1)
      rows[i]![j] = cost
    }
  }
  return rows[a.length]![b.length]!
}

test('the band gives what the whole table gives, up to its limit', () => {
  fc.assert(
    fc.property(letters, letters, fc.nat(3), (a, b, max) => {
      const whole = distance(a, b)
      expect(editDistance(a, b, max)).toBe(whole > max ? undefined : whole)
    }),
    { numRuns: 2000 },
  )
})

test('whatever is near by insertions, deletions and substitutions shares a key with what is stored', () => {
  fc.assert(
    fc.property(letters, edits, (text, changes) => {
      const other = changes.reduce(edited, text)
      if (!isNear(text, other)) return
      const stored = new Set(storedKeys(text))
      expect(soughtKeys(other).some((key) => stored.has(key))).toBe(true)
    }),
    { numRuns: 5000 },
  )
})

test('a swap of any two neighbors is found', () => {
  fc.assert(
    fc.property(letters, fc.nat(40), (text, place) => {
      const other = edited(text, [3, place, ''])
      const stored = new Set(storedKeys(text))
      expect(soughtKeys(other).some((key) => stored.has(key))).toBe(true)
    }),
  )
})

test.each([
  ['summary', 'sumary', true],
  ['summary', 'summray', true],
  ['summary', 'sumaryy', false],
  ['contractreview', 'contractreviews', true],
  ['contractreview', 'contractreveiws', false],
  ['contractreviewer', 'contractreveiwers', true],
  ['contractreviewer', 'contractreviewerbot', false],
  ['acme', 'acne', false],
])('%s and %s: near %s', (a, b, near) => {
  expect(isNear(a, b)).toBe(near)
  expect(isNear(b, a)).toBe(near)
})

test('keys are few and whole numbers that SQLite and JavaScript hold exactly', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 200 }), (text) => {
      expect(storedKeys(text).length).toBeLessThanOrEqual(4)
      expect(soughtKeys(text).length).toBeLessThanOrEqual(24)
      for (const key of soughtKeys(text)) expect(Number.isSafeInteger(key) && key >= 0).toBe(true)
    }),
  )
  const keys = new Set(Array.from({ length: 100_000 }, (_, n) => textKey(`text ${n}`)))
  expect(keys.size).toBe(100_000)
})
