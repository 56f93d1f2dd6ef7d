import { expect, test } from 'vitest'
import { JsonGauge } from './json-gauge.ts'

/** In pieces of one byte, so that every boundary is met. */
function excessOf(text: string): string | undefined {
  const gauge = new JsonGauge()
  for (const byte of Buffer.from(text)) {
    const excess = gauge.excessOf(Uint8Array.of(byte))
    if (excess !== undefined) return excess
  }
  return undefined
}

test.each([
  ['brackets', '['.repeat(65), 'is nested deeper than 64 levels'],
  ['brackets behind a text that is left open', `data: "\n\n${'['.repeat(65)}`, 'is nested deeper than 64 levels'],
  ['values', `[${'1,'.repeat(100_001)}1]`, 'has more than 100000 values'],
  ['objects over several lines', `[${'{},\n'.repeat(60_000)}{}]`, 'has more than 100000 values'],
  ['a text with brackets', JSON.stringify({ a: `\\"${'['.repeat(1_000)}${','.repeat(200_000)}` }), undefined],
  ['a text that ends in a backslash', `${JSON.stringify(['\\'])}${'['.repeat(63)}`, undefined],
  ['lines of values, each by itself', `data: ${JSON.stringify({ a: [1, 2, 3] })}\n\n`.repeat(40_000), undefined],
])('T32 %s', (_, text, excess) => {
  expect(excessOf(text)).toBe(excess)
})
