import { editDistance } from '../lib/text/edit-distance.ts'
import { type SoughtWord, typedWords } from '../store/listing-match.ts'
import type { ListingSearch } from '../store/listing-search.ts'

/**
 * A way to take what was typed. Each is tried only where those before it find nothing: every word · every word, those
 * that nobody uses corrected · any of those.
 */
export type Reading = {
  list: readonly SoughtWord[]
  join: 'all' | 'any'
  /** Words that were taken for others: typed → taken for. */
  corrected: ReadonlyMap<string, string>
}

/** The readings of one query, the strictest first. */
export type Readings = {
  /** Undefined where there is none: as for what holds no word at all. */
  at(place: number): Reading | undefined
  /** The place of the first that finds anything. */
  first(): number | undefined
}

type Source = Pick<ListingSearch, 'count' | 'wordsLike'>

/** Words that say nothing of what an agent does, as people type them around those that do. */
const fillers = new Set(
  'a an and any are as at be by can could do for from give have help how i in is it let make me my need of on or our please should some that the their them this to us want was we what which who will with would you your'.split(
    ' ',
  ),
)
/** Every word costs the time to count where it stands. Of more, the rarest tell the most. */
const WORDS_MAX = 5
const COUNT_MAX = 5000
const BEGINNING_LENGTH_MIN = 2
const CORRECTED_LENGTH_MIN = 4
/** Of words equally close to a mistyped one, those that are counted. */
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

/** How many listings hold a word, up to a limit. */
function countOf(word: SoughtWord, source: Source, limit = COUNT_MAX): number {
  return source.count({ words: { list: [word], join: 'all', place: 'anywhere' } }, limit)
}

/** The last word may be the beginning of one: nobody waits for the end of it. Where it is a word itself it is that one. */
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

/** The word with the fewest edits; of several the commonest. */
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
