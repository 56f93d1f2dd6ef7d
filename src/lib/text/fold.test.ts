import fc from 'fast-check'
import { expect, test } from 'vitest'
import { foldText, wordsOf } from './fold.ts'

test.each([
  ['Ｒésumé', 'resume'],
  ['STRASSE', 'strasse'],
  ['Straße', 'strasse'],
  ['ΟΔΟΣ', 'οδοσ'],
  ['İstanbul', 'istanbul'],
  ['a\ue000b\ud800c', 'abc'],
])('folds %j to %j', (text, folded) => {
  expect(foldText(text)).toBe(folded)
})

test('words are letters, digits and their marks, in any script', () => {
  expect(wordsOf(foldText('C++ & "AND" NOT(x) v1.5 हिन्दी'))).toEqual(['c', 'and', 'not', 'x', 'v1', '5', 'हिन्दी'])
  expect(wordsOf(foldText('合同 Review'))).toEqual(['合', '同', 'review'])
  expect(wordsOf('*** 🤖 \0')).toEqual([])
})

test('T8 folding twice changes nothing more, and no word holds anything that means something to FTS5', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      const folded = foldText(text)
      expect(wordsOf(foldText(folded))).toEqual(wordsOf(folded))
      for (const word of wordsOf(folded)) expect(word).not.toMatch(/["*:^+(){}\s\0\ue000]/)
    }),
    { numRuns: 2000 },
  )
})
