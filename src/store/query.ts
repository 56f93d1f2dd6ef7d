/** A value of a column: NULL, a number or bigint, a text, or bytes. */
export type Value = null | number | bigint | string | Uint8Array

/**
 * One statement with its values, in the order of its placeholders (`?`, or `?1` for a value used twice).
 *
 * The SQL is SQLite's, as far as PostgreSQL has it too (store/postgres/translate.ts).
 */
export type Statement = { readonly sql: string; readonly values: readonly Value[]; readonly wants: 'rows' | 'changes' }

/** The rows of a statement, or how many rows it changed. */
export type Answer = { readonly rows: readonly unknown[]; readonly changes: number }

/** What a query asks for next: statements that are sent at once, or a lock until the end of the transaction. */
export type Step = { readonly statements: readonly Statement[] } | { readonly lock: string }

type Steps<T> = Iterator<Step, T, readonly Answer[]>

/**
 * Statements and what to make of their answers, without the engine that runs them.
 *
 * A query reads and writes the ledger, and nothing else: an engine may run it again, from its start, after a lost
 * connection or beside another change that failed. Compose queries with `yield*`. Each `yield*` of a statement is a
 * round trip on PostgreSQL, so statements that do not need each other's answers go `together`.
 */
export class Query<T> {
  /** The statements, if all of them are known from the start. The engine then sends them with the commit. */
  readonly plain: readonly Statement[] | undefined
  readonly #start: () => Steps<T>

  constructor(start: () => Steps<T>, plain?: readonly Statement[]) {
    this.#start = start
    this.plain = plain
  }

  [Symbol.iterator](): Steps<T> {
    return this.#start()
  }
}

/** A query of several steps, written as a generator. */
export function steps<T>(start: () => Generator<Step, T, readonly Answer[]>): Query<T> {
  return new Query(start)
}

function single<T>(statement: Statement, read: (answer: Answer) => T): Query<T> {
  const statements = [statement]
  return new Query(function* () {
    const [answer] = yield { statements }
    return read(answer!)
  }, statements)
}

/** The rows of a statement, typed by the caller. */
export function all<Row>(sql: string, ...values: readonly Value[]): Query<Row[]> {
  return single({ sql, values, wants: 'rows' }, ({ rows }) => rows as Row[])
}

/** The first row of a statement. */
export function one<Row>(sql: string, ...values: readonly Value[]): Query<Row | undefined> {
  return single({ sql, values, wants: 'rows' }, ({ rows }) => rows[0] as Row | undefined)
}

/** How many rows a statement changed. */
export function run(sql: string, ...values: readonly Value[]): Query<number> {
  return single({ sql, values, wants: 'changes' }, ({ changes }) => changes)
}

/** A query that asks for nothing. */
export function nothing<T>(value: T): Query<T> {
  // biome-ignore lint/correctness/useYield: there is nothing to ask for
  return new Query(function* () {
    return value
  }, [])
}

type Values<Q extends readonly Query<unknown>[]> = { -readonly [I in keyof Q]: Q[I] extends Query<infer T> ? T : never }

/**
 * Runs queries side by side: the first step of each in one round trip, then the second step of each.
 *
 * The statements of one step run in the order of the queries. None of the queries may take a lock.
 */
export function together<Q extends readonly Query<unknown>[]>(...queries: Q): Query<Values<Q>> {
  const plain = queries.every((each) => each.plain !== undefined) ? queries.flatMap((each) => each.plain!) : undefined
  return new Query(() => sideBySide(queries) as Steps<Values<Q>>, plain)
}

function* sideBySide(queries: readonly Query<unknown>[]): Generator<Step, unknown[], readonly Answer[]> {
  const runs = queries.map((each) => {
    const asking = each[Symbol.iterator]()
    return { asking, result: asking.next() }
  })
  for (;;) {
    const open = runs.filter(({ result }) => result.done !== true)
    if (open.length === 0) return runs.map(({ result }) => result.value)
    const asked = open.map(({ result }) => statementsOf(result.value as Step))
    const answers = yield { statements: asked.flat() }
    let from = 0
    for (const [index, each] of open.entries()) {
      const { length } = asked[index]!
      each.result = each.asking.next(answers.slice(from, from + length))
      from += length
    }
  }
}

function statementsOf(step: Step): readonly Statement[] {
  if ('lock' in step) throw new TypeError(`the lock "${step.lock}" was asked for inside of together`)
  return step.statements
}

/**
 * Runs statements with the first step of a query, without a round trip of their own. Nobody reads their answers.
 *
 * @param extra a query whose statements are known from the start
 */
export function beside<T>(query: Query<T>, extra: Query<unknown>): Query<T> {
  const more = extra.plain
  if (more === undefined) throw new TypeError('what runs beside a query must be known from the start')
  const plain = query.plain && [...query.plain, ...more]
  return new Query(() => withMore(query, more), plain)
}

function* withMore<T>(query: Query<T>, more: readonly Statement[]): Generator<Step, T, readonly Answer[]> {
  const asking = query[Symbol.iterator]()
  let isAsked = false
  let result = asking.next()
  while (result.done !== true) {
    const step = result.value
    if (isAsked || 'lock' in step) {
      result = asking.next(yield step)
      continue
    }
    isAsked = true
    const answers = yield { statements: [...step.statements, ...more] }
    result = asking.next(answers.slice(0, step.statements.length))
  }
  if (!isAsked) yield { statements: more }
  return result.value
}

/**
 * Lets no other change that takes the same lock run until this one is committed, whatever process runs it.
 *
 * For rules that a conditional statement cannot hold, such as a limit over several rows. Take it first: what was read
 * before may have changed. A query that only reads takes none.
 */
export function lock(name: string): Query<void> {
  return new Query(function* () {
    yield { lock: name }
  })
}
