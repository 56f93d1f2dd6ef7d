import { LAST_EXCHANGE, LAST_PAYMENT, NEXT_EXCHANGE } from '../new-ids.ts'

/** A statement as PostgreSQL takes it. */
type Translation = {
  text: string
  /** False if it changes something. */
  reads: boolean
}

/** String, name in quotes, bytes, comment, placeholder, hint, word of SQLite alone, name or word, parenthesis. What is between them stays. */
const TOKENS =
  /[xX]'[0-9a-fA-F]*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\?\d*|\b(?:INDEXED BY \w+|NOT INDEXED|OR FAIL)\b|[A-Za-z_]\w*|[()]/g
const TYPES: Record<string, string> = { INTEGER: 'bigint', BLOB: 'bytea', REAL: 'float8' }
const HEX = /\b(lower\(\s*)?hex\(/i
const CHANGES = /\b(?:INSERT INTO|UPDATE \w+ SET|DELETE FROM)\b/i
/** Sequences in place of the highest number. */
const SEQUENCES: readonly [string, string][] = [
  [NEXT_EXCHANGE, "nextval('exchanges_id_seq')"],
  [LAST_EXCHANGE, "currval('exchanges_id_seq')"],
  [LAST_PAYMENT, "currval('payments_no_seq')"],
]
const TRANSLATIONS_MAX = 2_000

const translations = new Map<string, Translation>()

/**
 * Translates a statement of SQLite, as far as the statements of the ledger need it.
 *
 * Placeholders get numbers, and hints about indices and `OR FAIL` go. Names with capitals get quotes, since PostgreSQL would fold them.
 * `CAST(… AS INTEGER)` has 64 bits, `x'00'` is bytes, and `lower(hex(…))` is `encode(…, 'hex')`. The ids of new rows
 * (new-ids.ts) come from sequences.
 */
export function translate(sql: string): Translation {
  let translation = translations.get(sql)
  if (translation === undefined) {
    if (translations.size >= TRANSLATIONS_MAX) translations.clear()
    const text = withEncode(withNumbers(withSequences(sql)))
    translation = { text, reads: /^[\s(]*(?:SELECT|VALUES|WITH)\b/i.test(text) && !CHANGES.test(text) }
    translations.set(sql, translation)
  }
  return translation
}

function withSequences(sql: string): string {
  return SEQUENCES.reduce((text, [highest, sequence]) => text.replaceAll(highest, sequence), sql)
}

function withNumbers(sql: string): string {
  let placeholders = 0
  /** For each open parenthesis: whether its arguments are those of `substr`, which takes numbers of 32 bits alone. */
  const opened: boolean[] = []
  let word = ''
  const text = sql.replace(TOKENS, (token) => {
    const before = word
    word = token
    if (token === '(') opened.push(/^substr$/i.test(before))
    else if (token === ')') opened.pop()
    if (token.startsWith('?')) {
      placeholders += 1
      const name = token === '?' ? `$${placeholders}` : `$${token.slice(1)}`
      return opened.at(-1) === true ? `CAST(${name} AS int)` : name
    }
    return wordOf(token)
  })
  return text.replace(/\s+/g, ' ').trim()
}

function wordOf(token: string): string {
  if (/^(?:--|\/\*|INDEXED BY|NOT INDEXED|OR FAIL)/.test(token)) return ''
  if (/^[xX]'/.test(token)) return `'\\x${token.slice(2, -1)}'::bytea`
  if (TYPES[token] !== undefined) return TYPES[token]
  return /^[a-z]\w*[A-Z]/.test(token) ? `"${token}"` : token
}

function withEncode(text: string): string {
  const match = HEX.exec(text)
  if (match === null) return text
  const from = match.index + match[0].length
  const to = closingOf(text, from)
  const inner = withEncode(text.slice(from, to))
  const encoded = `encode(${inner}, 'hex')`
  const isLower = match[1] !== undefined
  const rest = text.slice(isLower ? closingOf(text, to + 1) + 1 : to + 1)
  return `${text.slice(0, match.index)}${isLower ? encoded : `upper(${encoded})`}${withEncode(rest)}`
}

/** Where the parenthesis ends that was opened before `from`. */
function closingOf(text: string, from: number): number {
  let depth = 1
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '(') depth += 1
    if (text[at] === ')') depth -= 1
    if (depth === 0) return at
  }
  throw new TypeError(`a parenthesis is not closed: ${text}`)
}
