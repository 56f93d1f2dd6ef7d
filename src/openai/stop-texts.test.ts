import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { StopTexts } from './stop-texts.ts'

const cut = (text: string, stops: readonly string[]) => {
  const places = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0)
  return places.length === 0 ? text : text.slice(0, Math.min(...places))
}

test('a text in any pieces ends before its first stop text', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 30 })
  const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\n'), minLength: 1, maxLength: 4 }), {
    maxLength: 3,
  })
  fc.assert(
    fc.property(fc.array(letters, { maxLength: 6 }), stops, (pieces, given) => {
      const texts = new StopTexts(given)
      const shown = pieces.map((piece) => texts.take(piece)).join('') + texts.end()
      // A longer stop text that ends later may begin earlier: what was shown is known when the first one is found.
      const whole = cut(pieces.join(''), given)
      expect(whole.startsWith(shown) || shown.startsWith(whole)).toBe(true)
      if (given.length < 2) expect(shown).toBe(whole)
    }),
  )
})

test('text that may begin a stop text is kept back until it is known', () => {
  const texts = new StopTexts(['\n\nUser:'])
  expect(texts.take('one\n')).toBe('one')
  expect(texts.take('\nUse')).toBe('')
  expect(texts.take('ful')).toBe('\n\nUseful')
  expect(texts.take(' two\n\nUser: three')).toBe(' two')
  expect([texts.isDone, texts.take('four'), texts.end()]).toEqual([true, '', ''])
})
