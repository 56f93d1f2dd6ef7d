import { foldText, wordsOf } from '../lib/text/fold.ts'
import { stemOf } from '../lib/text/stem.ts'
import type { Listing } from '../schema/listing.ts'
import type { Reading } from './query-words.ts'

const places = ['name', 'tags', 'description'] as const

/** Describes in words which of the searched words appear in which part of a listing. */
export function whereFound(listing: Listing, { list, corrected }: Reading, named: boolean): string {
  const texts = { name: listing.name, tags: listing.tags.join(' , '), description: listing.description }
  const found = places.map((place) => ({ place, words: wordsOf(foldText(texts[place])), hits: [] as string[] }))
  const missing: string[] = []
  for (const { tokens, begins } of list) {
    const first = found.find(({ words }) => holds(words, tokens, begins))
    const shown = tokens.join('')
    if (first === undefined) missing.push(shown)
    else first.hits.push(shown)
  }
  const parts = found.filter(({ hits }) => hits.length > 0).map(({ place, hits }) => `${listed(hits)} in its ${place}`)
  return [
    ...(named ? ['the name that was typed'] : []),
    ...parts,
    ...(missing.length > 0 && !named ? [`without ${listed(missing)}`] : []),
    ...[...corrected].map(([typed, taken]) => `“${typed}” taken for “${taken}”`),
  ].join('; ')
}

function holds(words: readonly string[], tokens: readonly string[], begins: boolean): boolean {
  const last = tokens.length - 1
  const fits = (word: string | undefined, place: number) =>
    word !== undefined &&
    (stemOf(word) === stemOf(tokens[place]!) || (begins && place === last && word.startsWith(tokens[place]!)))
  return words.some((_, at) => tokens.every((_token, place) => fits(words[at + place], place)))
}

function listed(words: readonly string[]): string {
  return words.map((word) => `“${word}”`).join(', ')
}
