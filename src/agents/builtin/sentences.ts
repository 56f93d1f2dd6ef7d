import type { Pace } from './pace.ts'

export type Sentence = {
  text: string
  /** The first sentence of its paragraph, which often states the topic. */
  opens: boolean
  /** A heading, list item, table row or line of code. Used only if there is nothing better. */
  minor: boolean
}

/** Characters. A longer sentence is cut at the last gap before this, because some texts have no full stops. */
const SENTENCE_LENGTH_MAX = 600

const segmenter = new Intl.Segmenter('und', { granularity: 'sentence' })

/** A full stop after these abbreviations does not end a sentence. Unicode's rules know no abbreviations. */
const TITLE =
  /(?:^|[\s("'«„“])(?:Dr|Mr|Mrs|Ms|Prof|St|Gen|Sen|Rep|Gov|Capt|Col|Lt|Sgt|Rev|Hon|vs|cf|ca|approx|Hr|Fr|bzw|Sr|Sra|Dra|Mme|Mlle|\p{Lu})\.\s*$/u
/** A full stop after these does not end a sentence if a number follows. */
const NUMBERED = /(?:^|[\s("'«„“])(?:No|Nr|Nos|Fig|Figs|Abb|Vol|Bd|Eq|Sec|Ch|p|pp|S|art|Art|n|núm)\.\s*$/u
const LINE_BREAK = /\r\n|[\n\r\u2028\u2029]/g
/** Headings, list items, table rows. */
const MINOR_LINE = /^(?:#{1,6}\s|[-*•‣+]\s|\d{1,3}[.)]\s|\|)/
const MARK = /^(?:#{1,6}|[-*•‣+]|\d{1,3}[.)])\s+/
const FENCE = /^(?:```|~~~)/
/** A character that may end a sentence, with text after it. */
const INNER_END = /[\p{Sentence_Terminal}.…]\P{White_Space}*\s*\S/u
/** The end of a sentence in scripts without spaces between sentences. */
const UNSPACED_END = /[。！？｡]["'”’」』）]*$/

/** Splits a text in any language into sentences. Joins lines that were broken for width. Drops markup and code. */
export async function sentencesOf(text: string, pace: Pace): Promise<Sentence[]> {
  const sentences: Sentence[] = []
  for (const { text: paragraph, minor } of paragraphsOf(text)) {
    await pace()
    let opens = true
    let pending = ''
    for (const segment of segmentsOf(paragraph)) {
      if (pending !== '' && (pending.length >= SENTENCE_LENGTH_MAX || !goesOn(pending, segment))) {
        await pace()
        opens = push(sentences, pending, opens, minor)
        pending = ''
      }
      pending += segment
    }
    push(sentences, pending, opens, minor)
  }
  return sentences
}

/** Joins sentences to running text, with spaces if their script uses them. */
export function joinSentences(texts: readonly string[]): string {
  return texts.reduce((all, text) => (all === '' ? text : `${all}${UNSPACED_END.test(all) ? '' : ' '}${text}`), '')
}

function* segmentsOf(paragraph: string): Generator<string> {
  // A short line without an inner sentence end needs no segmenter.
  if (paragraph.length <= SENTENCE_LENGTH_MAX && !INNER_END.test(paragraph)) yield paragraph
  else for (const { segment } of segmenter.segment(paragraph)) yield segment
}

function push(sentences: Sentence[], segment: string, opens: boolean, minor: boolean): boolean {
  const whole = segment.replace(/\s+/g, ' ').trim()
  if (!/[\p{L}\p{N}]/u.test(whole)) return opens
  let first = opens
  for (const text of cut(whole)) {
    sentences.push({ text, opens: first, minor })
    first = false
  }
  return false
}

function* cut(text: string): Generator<string> {
  let rest = text
  while (rest.length > SENTENCE_LENGTH_MAX) {
    const gap = rest.slice(0, SENTENCE_LENGTH_MAX).search(/\s\S*$/)
    const at = gap > 0 ? gap : SENTENCE_LENGTH_MAX - (isHighSurrogate(rest, SENTENCE_LENGTH_MAX - 1) ? 1 : 0)
    yield rest.slice(0, at)
    rest = rest.slice(at).trimStart()
  }
  if (rest !== '') yield rest
}

function isHighSurrogate(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800
}

function goesOn(before: string, next: string): boolean {
  return (
    TITLE.test(before.slice(-20)) ||
    (NUMBERED.test(before.slice(-20)) && /^\s*\d/.test(next)) ||
    /^\s*\p{Ll}/u.test(next)
  )
}

/** Splits at empty lines. Headings, list items and table rows stand alone. Other line breaks are layout only. */
function* paragraphsOf(text: string): Generator<{ text: string; minor: boolean }> {
  let lines: string[] = []
  let isCode = false
  for (const line of linesOf(text)) {
    const trimmed = line.trim()
    const isFence = FENCE.test(trimmed)
    const isMinor = !isCode && MINOR_LINE.test(trimmed)
    if (trimmed !== '' && !isFence && !isMinor && !isCode) {
      lines.push(trimmed)
      continue
    }
    if (lines.length > 0) yield { text: joinLines(lines), minor: false }
    lines = []
    if (isFence) isCode = !isCode
    else if (isMinor || isCode) yield { text: trimmed.replace(MARK, ''), minor: true }
  }
  if (lines.length > 0) yield { text: joinLines(lines), minor: false }
}

/** Yields one line at a time, because a list of millions of empty lines takes hundreds of megabytes. */
function* linesOf(text: string): Generator<string> {
  let from = 0
  for (const { 0: end, index } of text.matchAll(LINE_BREAK)) {
    yield text.slice(from, index)
    from = index + end.length
  }
  yield text.slice(from)
}

/** Chinese and Japanese lines are joined without a space. */
function joinLines(lines: readonly string[]): string {
  const text: string[] = []
  for (const line of lines) {
    const before = text.at(-1)
    if (before !== undefined && !/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}、。！？]$/u.test(before)) text.push(' ')
    text.push(line)
  }
  return text.join('')
}
