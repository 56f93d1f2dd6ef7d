import { foldText, wordsOf } from '../lib/text/fold.ts'
import { stemOf } from '../lib/text/stem.ts'
import { type Mark, markWord, nameWord } from './listing-text.ts'

/** A word to search for, in any of its forms. Several tokens are a phrase: a compound, or a script without spaces. */
export type SoughtWord = {
  tokens: readonly string[]
  /** Also matches longer words that begin with this word. */
  begins: boolean
}

/** Which listings are wanted. No words and no marks: all. */
export type MatchTerms = {
  words?: { list: readonly SoughtWord[]; join: 'all' | 'any'; place: 'anywhere' | 'name' }
  marks?: readonly Mark[]
  /** Excluded from the result. */
  except?: readonly MatchTerms[]
}

/** Words of a query that are searched. Further words are ignored. */
const TYPED_WORDS_MAX = 24
const TOKENS_MAX = 32

/** The words of a query as typed, without duplicates. No character is syntax. */
export function typedWords(query: string): string[][] {
  const words = query
    .split(/\s+/)
    .map((word) => wordsOf(foldText(word)).slice(0, TOKENS_MAX))
    .filter((tokens) => tokens.length > 0)
  const distinct = new Map(words.map((tokens) => [tokens.join(' '), tokens]))
  return [...distinct.values()].slice(0, TYPED_WORDS_MAX)
}

/** The FTS5 expression; undefined for all listings. */
export function matchExpression({ words, marks = [], except = [] }: MatchTerms): string | undefined {
  const parts = marks.map((mark) => `marks : ${quoted(markWord(mark))}`)
  if (words !== undefined && words.list.length > 0) {
    const form = words.place === 'name' ? nameWord : (word: string) => word
    const joined = words.list.map((word) => wordExpression(word, form)).join(words.join === 'all' ? ' AND ' : ' OR ')
    parts.push(words.place === 'name' ? `marks : (${joined})` : `(${joined})`)
  }
  if (parts.length === 0) return undefined
  const without = except.flatMap((wanted) => matchExpression(wanted) ?? []).map((expression) => ` NOT (${expression})`)
  return `(${parts.join(' AND ')})${without.join('')}`
}

function wordExpression({ tokens, begins }: SoughtWord, form: (word: string) => string): string {
  const whole = quoted(tokens.map((token) => form(stemOf(token))).join(' '))
  return begins ? `(${whole} OR ${quoted(tokens.map(form).join(' '))} *)` : whole
}

/** A string of FTS5: its contents are searched for and never read as an operator. */
function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}
