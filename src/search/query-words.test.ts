import { beforeAll, expect, test } from 'vitest'
import { ann, searchedMarket } from '../../test/support/searched-market.ts'
import { createListingSearch, type ListingSearch } from '../store/listing-search.ts'
import { readingsOf } from './query-words.ts'

let source: ListingSearch

beforeAll(async () => {
  const market = searchedMarket()
  await market.list(ann, ['Contract Summary', 'Contract Review', 'Wheather Report', 'Weather Report', 'Weather Map'])
  source = createListingSearch(market.database)
})

/** How a query is taken: its words, how they are joined, what was corrected. */
function taken(query: string): string | undefined {
  const readings = readingsOf(query, source)
  const place = readings.first()
  const reading = place === undefined ? undefined : readings.at(place)
  if (reading === undefined) return undefined
  const words = reading.list.map(({ tokens, begins }) => tokens.join('+') + (begins ? '…' : ''))
  const corrections = [...reading.corrected].map(([typed, word]) => ` ${typed}=${word}`)
  return words.join(reading.join === 'all' ? ' & ' : ' | ') + corrections.join('')
}

test.each([
  ['summarize a contract', 'summarize & contract'],
  ['Please summarize my contract for me!', 'summarize & contract'],
  ['contr', 'contr…'],
  ['contract summ', 'contract & summ…'],
  ['contract', 'contract'],
  ['the', undefined],
  ['contrcat', 'contract contrcat=contract'],
  ['wether reprot', 'weather & report wether=weather reprot=report'],
  ['contract zzzzzz', 'contract | zzzzzz…'],
  ['contract x', 'contract | x'],
  ['zzzzzz', undefined],
  ['***', undefined],
  ['', undefined],
])('%j is taken as %s', (query, expected) => {
  expect(taken(query)).toBe(expected)
})

test('the rarest of many words are searched', () => {
  expect(taken('test contract map summary review wheather')?.split(' | ')).toEqual([
    'contract',
    'map',
    'summary',
    'review',
    'wheather',
  ])
})
