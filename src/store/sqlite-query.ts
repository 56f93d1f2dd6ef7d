import type { SQLInputValue, StatementSync } from 'node:sqlite'
import type { Answer, Query, Statement } from './query.ts'

/**
 * Runs a query to its end without giving way, so nothing else is read or written between its steps.
 *
 * Locks are not needed: one process has the file, and one change runs at a time.
 */
export function runOnSqlite<T>(prepare: (sql: string) => StatementSync, query: Query<T>): T {
  if (query.plain !== undefined) return query.read!(query.plain.map((statement) => answerOf(prepare, statement)))
  const asking = query[Symbol.iterator]()
  let step = asking.next()
  while (step.done !== true) {
    const answers = 'lock' in step.value ? [] : step.value.statements.map((statement) => answerOf(prepare, statement))
    step = asking.next(answers)
  }
  return step.value
}

function answerOf(prepare: (sql: string) => StatementSync, { sql, values, wants }: Statement): Answer {
  const statement = prepare(sql)
  if (wants === 'rows') return { rows: statement.all(...(values as SQLInputValue[])), changes: 0 }
  return { rows: [], changes: Number(statement.run(...(values as SQLInputValue[])).changes) }
}
