import type { Answer, Query, Statement, Step } from '../query.ts'
import type { Outcome } from './batch.ts'
import type { Connection } from './connection.ts'
import { BEGIN_READING, COMMIT, ROLLBACK, type Sent, sentOf } from './sent.ts'
import { translate } from './translate.ts'

/** What came of one try to read. Without a value it may be tried again; `thrown` is of the query itself. */
export type Reading<T> =
  | { readonly value: T }
  | { readonly error: Error; readonly isLost: boolean }
  | { readonly thrown: unknown }

/** True if a query is one statement, which needs no transaction. */
export function isAlone({ plain }: Query<unknown>): boolean {
  return plain?.length === 1
}

/**
 * Reads in one round trip what belongs to different callers: one statement each.
 *
 * @returns what came of each, up to the first that failed. Those after it were not tried
 */
export async function readEach(
  connection: Connection,
  queries: readonly Query<unknown>[],
): Promise<Reading<unknown>[]> {
  const statements = queries.map(({ plain }) => sentOf(plain![0]!))
  const outcome = await connection.send(statements)
  const readings = outcome.answers.map((answer, index) => readingOf(queries[index]!, answer))
  if (outcome.kind === 'done') return readings
  const { error } = outcome
  if (outcome.kind === 'refused') return [...readings, { error, isLost: false }]
  return [...readings, ...queries.slice(readings.length).map(() => ({ error, isLost: true }))]
}

function readingOf(query: Query<unknown>, answer: Answer): Reading<unknown> {
  try {
    const asking = query[Symbol.iterator]()
    asking.next()
    return { value: asking.next([answer]).value }
  } catch (error) {
    return { thrown: error }
  }
}

/**
 * Reads in several statements, which see one state of the ledger: in a transaction that only reads.
 *
 * @param tail what the connection does when the value is there
 */
export async function readOn<T>(
  connection: Connection,
  query: Query<T>,
  tail: Promise<unknown>[],
): Promise<Reading<T>> {
  const asking = query[Symbol.iterator]()
  let result = asking.next()
  const isPlain = query.plain !== undefined
  let isBegun = false
  try {
    while (result.done !== true) {
      const statements = statementsOf(result.value)
      const head: Sent[] = isBegun ? [] : [BEGIN_READING]
      const sent = [...head, ...statements, ...(isPlain ? [COMMIT] : [])]
      const outcome = sent.length === 0 ? NOTHING : await connection.send(sent)
      isBegun ||= head.length > 0
      if (outcome.kind !== 'done') return { error: outcome.error, isLost: outcome.kind === 'lost' }
      result = asking.next(answersOf(outcome.answers, head.length, statements.length))
    }
    if (isBegun && !isPlain) tail.push(connection.send([COMMIT]))
    isBegun = false
    return { value: result.value }
  } finally {
    if (isBegun && !connection.isLost()) tail.push(connection.send([ROLLBACK]))
  }
}

const NOTHING: Outcome = { kind: 'done', answers: [] }

/** Locks are for changes. */
function statementsOf(step: Step): Sent[] {
  return 'lock' in step ? [] : step.statements.map(checked)
}

function checked(statement: Statement): Sent {
  checkReads(statement)
  return sentOf(statement)
}

/** @throws TypeError */
export function checkReads(statement: Statement): void {
  if (translate(statement.sql).reads) return
  throw new TypeError(`a change was given to query(), which only reads: ${statement.sql}`)
}

function answersOf(answers: readonly Answer[], from: number, count: number): readonly Answer[] {
  return answers.slice(from, from + count)
}
