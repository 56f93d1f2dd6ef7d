import { createPace } from './pace.ts'
import { sentencesOf } from './sentences.ts'
import { functionWordsFor, wordsOf } from './words.ts'

const TOP_WORDS_MAX = 10
/** Adults' reading speed for plain text. */
const WORDS_PER_MINUTE = 230
/** Words counted between two checks of the time. */
const WORDS_PER_LOOK = 500
/** Different words counted. A text with more is not prose, so only the first ones are ranked. */
const DIFFERENT_WORDS_MAX = 200_000
const WORD_LENGTH_MAX = 100
const [LF, CR, SPACE] = [10, 13, 32]

/** Statistics as JSON. `characters` counts Unicode code points. `top_words` omits function words (the, of …). */
export async function wordCount(text: string, signal: AbortSignal): Promise<string> {
  const pace = createPace(signal)
  const counts = new Map<string, number>()
  let words = 0
  for (const word of wordsOf(text)) {
    if (++words % WORDS_PER_LOOK === 0) await pace()
    const count = counts.get(word)
    if (count !== undefined || counts.size < DIFFERENT_WORDS_MAX) counts.set(word, (count ?? 0) + 1)
  }
  const sentences = await sentencesOf(text, pace)
  const figures = {
    bytes: Buffer.byteLength(text, 'utf8'),
    words,
    different_words: counts.size,
    sentences: sentences.length,
    ...layoutOf(text),
    reading_minutes: Math.round((words / WORDS_PER_MINUTE) * 10) / 10,
    top_words: await topWords(counts),
  }
  return JSON.stringify(figures, null, 2)
}

async function topWords(counts: ReadonlyMap<string, number>): Promise<{ word: string; count: number }[]> {
  const ranked = [...counts].sort((a, b) => b[1] - a[1])
  // The most frequent words identify the language best.
  const functionWords = await functionWordsFor(
    ranked.slice(0, 200).flatMap(([word, count]) => Array(Math.min(count, 10)).fill(word)),
  )
  return ranked
    .filter(([word]) => !functionWords.has(word) && /\p{L}/u.test(word) && word.length > 1)
    .slice(0, TOP_WORDS_MAX)
    .map(([word, count]) => ({ word: word.slice(0, WORD_LENGTH_MAX), count }))
}

/** Scans the UTF-16 units once, because a list of millions of empty lines would waste memory. */
function layoutOf(text: string): { characters: number; lines: number; paragraphs: number } {
  let [characters, lines, paragraphs] = [text.length, 0, 0]
  let [lineIsBlank, afterBlank] = [true, true]
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if ((unit & 0xfc00) === 0xd800) characters--
    if (unit === LF || (unit === CR && text.charCodeAt(i + 1) !== LF)) {
      lines++
      afterBlank = lineIsBlank
      lineIsBlank = true
    } else if (lineIsBlank && unit > SPACE) {
      if (afterBlank) paragraphs++
      lineIsBlank = false
    }
  }
  return { characters, lines: lines + (/[^\r\n]$/.test(text) ? 1 : 0), paragraphs }
}
