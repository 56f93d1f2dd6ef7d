/** Words of a text that are read to detect its language. */
export const SAMPLE_WORDS_MAX = 3000
/** Below this share of function words, the language is unknown. */
const FUNCTION_WORDS_MIN = 0.15
/** Inflected forms of a word mostly share this many letters, in any alphabetic language. */
const STEM_LENGTH = 6

/** Scripts without spaces between words. `Intl.Segmenter` has the dictionary to split them. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u
const SPACED_WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*(?:['’.,·-][\p{L}\p{N}][\p{L}\p{N}\p{M}]*)*/gu
const segmenter = new Intl.Segmenter('und', { granularity: 'word' })

/** Yields the words of a text in lower case, in any script. */
export function* wordsOf(text: string): Generator<string> {
  if (UNSPACED.test(text)) {
    for (const { segment, isWordLike } of segmenter.segment(text)) if (isWordLike) yield segment.toLowerCase()
  } else {
    for (const [word] of text.matchAll(SPACED_WORD)) yield word.toLowerCase()
  }
}

/** Maps the inflected forms of a word to one token. Words in scripts without inflection stay as they are. */
export function stem(word: string): string {
  const plain = word.normalize('NFKC')
  return /^[\p{sc=Latin}\p{sc=Cyrillic}\p{sc=Greek}\p{sc=Armenian}\p{M}'’]+$/u.test(plain)
    ? plain.slice(0, STEM_LENGTH)
    : plain
}

/**
 * The function words (the, of, und, 的 …) of the language of which they are the largest part. Empty if no list fits.
 * Only the first {@link SAMPLE_WORDS_MAX} words are read.
 */
export async function functionWordsFor(words: readonly string[]): Promise<ReadonlySet<string>> {
  const sample = words.slice(0, SAMPLE_WORDS_MAX)
  let best: ReadonlySet<string> = new Set()
  let bestCount = sample.length * FUNCTION_WORDS_MIN
  for (const list of await functionWordLists()) {
    const count = sample.reduce((sum, word) => sum + (list.has(word) ? 1 : 0), 0)
    if (count > bestCount || (count === bestCount && list.size < best.size)) {
      best = list
      bestCount = count
    }
  }
  return best
}

let lists: Promise<ReadonlySet<string>[]> | undefined

function functionWordLists(): Promise<ReadonlySet<string>[]> {
  lists ??= import('stopword').then(({ default: all }) =>
    Object.values(all).flatMap((list) => (Array.isArray(list) ? [new Set<string>(list)] : [])),
  )
  return lists
}
