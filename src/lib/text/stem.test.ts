import { expect, test } from 'vitest'
import { stemOf } from './stem.ts'

test.each([
  ['summar', ['summary', 'summaries', 'summarise', 'summarize', 'summarising', 'summarized', 'summarization']],
  ['contract', ['contract', 'contracts', 'contracted', 'contracting', 'contractor']],
  ['transl', ['translate', 'translates', 'translator', 'translators', 'translating', 'translation', 'translations']],
  ['analy', ['analysis', 'analyse', 'analyze', 'analyzer', 'analyzing']],
  ['creat', ['create', 'creates', 'creating', 'creator', 'creation']],
  ['review', ['review', 'reviews', 'reviewer', 'reviewed']],
])('%s is what %j share', (stem, words) => {
  expect([...new Set(words.map(stemOf))]).toEqual([stem])
})

test.each(['data', 'code', 'news', 'legal', 'bees', 'gpt5s', 'größe', 'переводы', '合'])('%s stays whole', (word) => {
  expect(stemOf(word)).toBe(word)
})
