import type { UnixMs } from '../lib/clock.ts'
import { one, type Query, steps } from './query.ts'

/** What to search for in a ledger. */
export type LookBackQuery = {
  /** A part of its texts. Ignores case. */
  text?: string | undefined
  /** Agents whose names contain the text. */
  agentIds?: readonly string[] | undefined
  since?: UnixMs | undefined
  until?: UnixMs | undefined
}

/** A table whose numbers rise with time. `texts`: SQL expressions to search in. */
type Book = { table: string; key: string; agentId: string; createdAt: string; texts: readonly string[] }

export type LookBackPage = {
  terms: string[]
  values: (string | number)[]
  /** The number at which this page stops. The next page continues before it. Undefined: there are no older rows. */
  floor: number | undefined
}

/** Rows that one page reads. A search over a large ledger continues page by page and blocks nothing. */
const ROWS_MAX = 5_000
/** Characters of each text that are searched. */
const TEXT_LENGTH_MAX = 4_096
/** Executions get their number when they end. They start at most this long before. */
const ORDER_SLACK_MS = 2 * 60 * 60 * 1000

/** SQL for the beginning of a long text. */
export const beginningOf = (column: string) => `substr(${column}, 1, ${TEXT_LENGTH_MAX})`

export function isSearch({ text, since, until }: LookBackQuery): boolean {
  return text !== undefined || since !== undefined || until !== undefined
}

/** The conditions that have a value, and their values. */
export function givenTerms(conditions: readonly [term: string, value: string | number | undefined][]) {
  const terms = conditions.flatMap(([term, value]) => (value === undefined ? [] : [term]))
  const values = conditions.flatMap(([, value]) => (value === undefined ? [] : [value]))
  return { terms, values }
}

/** The conditions of a search among the rows before number `before`. */
export function lookBack(book: Book, sought: LookBackQuery, before: number): Query<LookBackPage> {
  const { table, key, createdAt } = book
  const { since, until } = sought
  const { terms, values } = givenTerms([
    [`${createdAt} >= ?`, since],
    [`${createdAt} < ?`, until],
  ])
  if (sought.text !== undefined) {
    const found = textTerm(book, sought.text, sought.agentIds)
    terms.push(found.term)
    values.push(...found.values)
  }
  return steps(function* () {
    const last = yield* one<{ no: number; at: number }>(
      `SELECT ${key} AS no, ${createdAt} AS at FROM ${table} WHERE ${key} < ? ORDER BY ${key} DESC LIMIT 1 OFFSET ?`,
      before,
      ROWS_MAX - 1,
    )
    if (last === undefined) return { terms, values, floor: undefined }
    const isPast = since !== undefined && last.at < since - ORDER_SLACK_MS
    return { terms: [...terms, `${key} >= ?`], values: [...values, last.no], floor: isPast ? undefined : last.no }
  })
}

/** Matches the rows that hold a text, and those of the agents whose names do. Only letters of ASCII ignore case. */
function textTerm({ texts, agentId }: Book, text: string, agentIds: readonly string[] = []) {
  const pattern = `%${text.replace(/[\\%_]/g, '\\$&')}%`
  const terms = texts.map((place) => `lower(${place}) LIKE lower(?) ESCAPE '\\'`)
  if (agentIds.length > 0) terms.push(`${agentId} IN (${agentIds.map(() => '?').join(', ')})`)
  return { term: `(${terms.join(' OR ')})`, values: [...texts.map(() => pattern), ...agentIds] }
}
