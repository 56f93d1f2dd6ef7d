import type { AgentQuery } from '../../src/schema/search.ts'
import { seeded } from './listings.ts'

export type QueryKind = { name: string; make(): AgentQuery }

/** Number of words that occur in more than a fifth of all listings. Queries of only these words are the worst case. */
const COMMONEST = 8

/** The kinds of queries that people make. `words` goes from the most common to the rarest. */
export function queryKinds(words: readonly string[], sellerIds: readonly string[]): QueryKind[] {
  const random = seeded(7)
  const at = (from: number, until: number) => words[from + Math.floor(random() * (until - from))]!
  /** Words are typed as often as they are written: Zipf over the first `count`. */
  const zipf = (count: number) => words[Math.floor(count ** random()) - 1 + COMMONEST]!
  const page = { limit: 50 }
  const typing = (length: number) => at(COMMONEST, 150).slice(0, length)
  return [
    { name: 'first page', make: () => page },
    { name: 'first page, cheapest', make: () => ({ ...page, sort: 'price' }) },
    { name: 'first page, newest', make: () => ({ ...page, sort: 'newest' }) },
    { name: 'whole answer (500)', make: () => ({}) },
    { name: 'of one tag', make: () => ({ ...page, tags: [at(0, 150)] }) },
    { name: 'of one tag, cheapest', make: () => ({ ...page, tags: [at(0, 150)], sort: 'price' }) },
    {
      name: 'of one seller',
      make: () => ({ ...page, seller_id: sellerIds[Math.floor(random() * sellerIds.length)]! }),
    },
    { name: '“summarise a contract”', make: () => ({ ...page, q: 'summarise a contract' }) },
    { name: 'one word', make: () => ({ ...page, q: zipf(3000) }) },
    { name: 'two words', make: () => ({ ...page, q: `${zipf(3000)} ${zipf(3000)}` }) },
    { name: 'three words', make: () => ({ ...page, q: `${zipf(3000)} ${zipf(3000)} ${zipf(3000)}` }) },
    { name: 'ten words', make: () => ({ ...page, q: Array.from({ length: 10 }, () => zipf(3000)).join(' ') }) },
    { name: 'a word in everything', make: () => ({ ...page, q: at(0, COMMONEST) }) },
    { name: 'two letters, typing', make: () => ({ ...page, q: typing(2) }) },
    { name: 'four letters, typing', make: () => ({ ...page, q: typing(4) }) },
    { name: 'one letter swapped', make: () => ({ ...page, q: swapped(at(COMMONEST, 3000), random()) }) },
    { name: 'a rare word', make: () => ({ ...page, q: at(3000, words.length) }) },
    { name: 'two words, free', make: () => ({ ...page, q: `${zipf(500)} ${zipf(500)}`, free: true }) },
    { name: 'one word, max_price', make: () => ({ ...page, q: zipf(500), max_price: 1000n }) },
    { name: 'one word, cheapest', make: () => ({ ...page, q: zipf(3000), sort: 'price' }) },
    { name: 'two words, explained', make: () => ({ ...page, q: `${zipf(500)} ${zipf(500)}`, explain: true }) },
  ]
}

function swapped(word: string, chance: number): string {
  const place = 1 + Math.floor(chance * (word.length - 2))
  return (
    word.slice(0, place) +
    word
      .slice(place, place + 2)
      .split('')
      .reverse()
      .join('') +
    word.slice(place + 2)
  )
}
