import { editDistance } from '../lib/text/edit-distance.ts'
import { type SoughtWord, typedWords } from '../store/listing-match.ts'
import type { ListingSearch } from '../store/listing-search.ts'

/**
 * One way to read a query. A reading is tried only if all stricter readings find nothing. First all words must match,
 * then all words with unused words corrected, then any of the corrected words.
 */
export type Reading = {
  list: readonly SoughtWord[]
  join: 'all' | 'any'
  /** Corrected words: typed → used. */
  corrected: ReadonlyMap<string, string>
}

/** The readings of one query, the strictest first. */
type Readings = {
  /** Undefined if there is no such reading, or if the query contains no word. */
  at(place: number): Reading | undefined
  /** Index of the first reading that finds anything. */
  first(): number | undefined
}

type Source = Pick<ListingSearch, 'count' | 'wordsLike'>

/** Filler words. People type them around the words that describe an agent. */
const fillers = new Set(
  'a an and any are as at be by can could do for from give have help how i in is it let make me my need of on or our please should some that the their them this to us want was we what which who will with would you your'.split(
    ' ',
  ),
)
/**
 * Words searched. Each word costs time to count its listings. Of a longer query the rarest words are kept, because they
 * tell the most.
 */
const WORDS_MAX = 5
const COUNT_MAX = 5000
const BEGINNING_LENGTH_MIN = 2
const CORRECTED_LENGTH_MIN = 4
/** Candidates counted among the words that are equally close to a mistyped word. */
const CLOSEST_MAX = 8

export function readingsOf(query: string, source: Source): Readings {
  const typed = typedWords(query)
  const telling = typed.filter((tokens) => !fillers.has(tokens.join(' ')))
  const words = (telling.length === 0 ? typed : telling).map((tokens) => ({ tokens, begins: false }))
  const every = memo((): Reading => {
    const list = rarest(words, source).map((word) => (word.tokens === typed.at(-1) ? asTyped(word, source) : word))
    return { list, join: 'all', corrected: new Map() }
  })
  const corrected = memo(() => correct(every().list, source))
  const readings = [every, corrected, (): Reading => ({ ...corrected(), join: 'any' })]
  const finds = (reading: Reading) => source.count({ words: { ...reading, place: 'anywhere' } }, 1) > 0
  return {
    at: (place) => (words.length === 0 ? undefined : readings[place]?.()),
    first() {
      if (words.length === 0) return undefined
      const place = readings.findIndex((reading) => finds(reading()))
      return place === -1 ? undefined : place
    },
  }
}

/** Number of listings that contain a word, up to `limit`. */
function countOf(word: SoughtWord, source: Source, limit = COUNT_MAX): number {
  return source.count({ words: { list: [word], join: 'all', place: 'anywhere' } }, limit)
}

/** The last word may be unfinished, so it also matches as a prefix unless it is a known word itself. */
function asTyped(word: SoughtWord, source: Source): SoughtWord {
  return { ...word, begins: word.tokens.at(-1)!.length >= BEGINNING_LENGTH_MIN && countOf(word, source, 1) === 0 }
}

function rarest(words: readonly SoughtWord[], source: Source): readonly SoughtWord[] {
  if (words.length <= WORDS_MAX) return words
  const counted = words.map((word) => ({ word, count: countOf(word, source) }))
  const kept = new Set(counted.toSorted((a, b) => a.count - b.count).slice(0, WORDS_MAX))
  return counted.filter((one) => kept.has(one)).map(({ word }) => word)
}

function correct(words: readonly SoughtWord[], source: Source): Reading {
  const corrected = new Map<string, string>()
  const list = words.map((word) => {
    const [typed = ''] = word.tokens
    const isWanting = word.tokens.length === 1 && typed.length >= CORRECTED_LENGTH_MIN && countOf(word, source, 1) === 0
    const closest = isWanting ? closestWord(typed, source) : undefined
    if (closest === undefined) return word
    corrected.set(typed, closest)
    return { tokens: [closest], begins: false }
  })
  return { list, join: 'all', corrected }
}

/** The word with the fewest edits. If several are equally close, the most common. */
function closestWord(typed: string, source: Source): string | undefined {
  let closest: string[] = []
  let least = typed.length < 8 ? 1 : 2
  for (const word of source.wordsLike(typed, least)) {
    const distance = editDistance(typed, word, least)
    if (distance === undefined) continue
    if (distance < least) closest = []
    least = distance
    closest.push(word)
  }
  const counted = closest
    .slice(0, CLOSEST_MAX)
    .map((word) => ({ word, count: countOf({ tokens: [word], begins: false }, source) }))
  return counted.toSorted((a, b) => b.count - a.count)[0]?.word
}

function memo<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
