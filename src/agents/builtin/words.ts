/** How much of a text is looked at to learn its language. */
export const SAMPLE_WORDS_MAX = 3000
/** Below this share of function words the lists say nothing about a text. */
const FUNCTION_WORDS_MIN = 0.15
/** Inflected forms mostly share this many letters with each other, in any language written with an alphabet. */
const STEM_LENGTH = 6

/** Scripts that write no spaces between words: to find them takes a dictionary, which `Intl.Segmenter` has. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u
const SPACED_WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*(?:['’.,·-][\p{L}\p{N}][\p{L}\p{N}\p{M}]*)*/gu
const segmenter = new Intl.Segmenter('und', { granularity: 'word' })

/** The words of a text in lower case, in any script. */
export function* wordsOf(text: string): Generator<string> {
  if (UNSPACED.test(text)) {
    for (const { segment, isWordLike } of segmenter.segment(text)) if (isWordLike) yield segment.toLowerCase()
  } else {
    for (const [word] of text.matchAll(SPACED_WORD)) yield word.toLowerCase()
  }
}

/** One token for the inflected forms of a word; in scripts without inflection by letters, the word itself. */
export function stem(word: string): string {
  const plain = word.normalize('NFKC')
  return /^[\p{sc=Latin}\p{sc=Cyrillic}\p{sc=Greek}\p{sc=Armenian}\p{M}'’]+$/u.test(plain)
    ? plain.slice(0, STEM_LENGTH)
    : plain
}

/**
 * The function words (the, of, und, 的 …) of the language a text is written in; empty if no list fits.
 *
 * The language is the one whose function words make up most of the text, which is what they do in every language.
 *
 * @param words of the text; the first {@link SAMPLE_WORDS_MAX} are looked at.
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
