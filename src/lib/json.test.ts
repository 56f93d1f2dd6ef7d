import fc from 'fast-check'
import { expect, test } from 'vitest'
import { excessOf, JSON_LIMITS, parseJson, readJson, UNLIMITED } from './json.ts'

const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
const deep = `is nested deeper than ${JSON_LIMITS.levels} levels`
const wide = `has more than ${JSON_LIMITS.values} values`

test.each([
  ['65 brackets', nested(65), deep],
  ['4,098 brackets', nested(2_049), deep],
  ['65 braces', `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, deep],
  ['8 MB of brackets', nested(4_000_000), deep],
  ['8 MB of brackets that never close', '['.repeat(8_000_000), deep],
  ['8 MB of empty objects', `[${'{},'.repeat(2_700_000)}{}]`, wide],
  ['a million keys', `{${Array.from({ length: 1_000_000 }, (_, i) => `"${i}":1`).join(',')}}`, wide],
  ['a million numbers', `[${'1,'.repeat(1_000_000)}1]`, wide],
  ['a million texts', `[${'"",'.repeat(1_000_000)}""]`, wide],
])('T8 T32 %s are refused before they are parsed', (_, text, reason) => {
  expect(readJson(text)).toEqual({ ok: false, reason })
  if (text.length <= 4_096) expect(parseJson(text)).toEqual(JSON.parse(text))
  else expect([parseJson(text), parseJson(Buffer.from(text))]).toEqual([undefined, undefined])
})

test('what a message may hold is parsed: 64 levels, 100,000 values, texts of any length and kind', () => {
  const row = `[${'0,'.repeat(99_999)}0]`
  const texts = ['['.repeat(1_000_000), '\\"[[', '"[['.repeat(100), '\\', '\\\\"', 'é'.repeat(70), '']
  for (const text of [nested(64), row, JSON.stringify(texts), JSON.stringify({ '[[["': texts })]) {
    expect(readJson(text)).toEqual({ ok: true, value: JSON.parse(text) })
  }
  expect(readJson(`[${'0,'.repeat(100_000)}0]`)).toEqual({ ok: false, reason: wide })
})

test('JSON of this machine has no limit', () => {
  expect(parseJson(nested(1_000), UNLIMITED)).toBeDefined()
})

test.each(['', '{', '"', '"\\', '"\\"', 'nul', ']', '\u{feff}{'])('%j is no JSON', (text) => {
  expect(readJson(text)).toEqual({ ok: false, reason: 'is not JSON in UTF-8' })
  expect(readJson(Buffer.from([0x22, 0xff, 0x22]))).toEqual({ ok: false, reason: 'is not JSON in UTF-8' })
})

test('depth and values are those of the parsed value, whatever its texts hold', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' }), (value) => {
      const text = JSON.stringify(value)
      const levels = depthOf(value)
      expect(excessOf(text, { levels, values: 100_000 })).toBeUndefined()
      if (levels > 0) expect(excessOf(text, { levels: levels - 1, values: 100_000 })).toMatch(/deeper/)
    }),
    { numRuns: 50 },
  )
})

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}
