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

type Read<T> = (answers: readonly Answer[]) => T

/**
 * Statements and what to make of their answers, without the engine that runs them.
 *
 * A query reads and writes the ledger, and nothing else: an engine may run it again, from its start, after a lost
 * connection or beside another change that failed. Compose queries with `yield*`. Each `yield*` of a statement is a
 * round trip on PostgreSQL, so statements that do not need each other's answers go `together`. What only converts an
 * answer goes into `map`: the query then stays plain.
 */
export class Query<T> {
  /** The statements, if all of them are known from the start. The engine then sends them with the commit. */
  readonly plain: readonly Statement[] | undefined
  /** What a plain query makes of its answers. SQLite runs it without steps: a generator costs as much as a read. */
  readonly read: Read<T> | undefined
  readonly #start: () => Steps<T>

  constructor(start: () => Steps<T>, plain?: { statements: readonly Statement[]; read: Read<T> }) {
    this.#start = start
    this.plain = plain?.statements
    this.read = plain?.read
  }

  [Symbol.iterator](): Steps<T> {
    return this.#start()
  }

  /** The same query with another value. `convert` may run after the commit, so it must not refuse. */
  map<U>(convert: (value: T) => U): Query<U> {
    const query: Query<T> = this
    if (isPlain(query)) return plainly(query.plain, (answers) => convert(query.read(answers)))
    return steps(function* () {
      return convert(yield* query)
    })
  }
}

type PlainQuery<T> = Query<T> & { readonly plain: readonly Statement[]; readonly read: Read<T> }

function isPlain<T>(query: Query<T>): query is PlainQuery<T> {
  return query.plain !== undefined
}

function plainly<T>(statements: readonly Statement[], read: Read<T>): Query<T> {
  return new Query(() => new OneStep(statements, read), { statements, read })
}

/** The only step of a plain query. By hand, since it runs in every change: a generator takes several times as long. */
class OneStep<T> implements Steps<T> {
  readonly #statements: readonly Statement[]
  readonly #read: Read<T>
  #isAsked = false

  constructor(statements: readonly Statement[], read: Read<T>) {
    this.#statements = statements
    this.#read = read
  }

  next(answers: readonly Answer[] = []): IteratorResult<Step, T> {
    if (this.#isAsked || this.#statements.length === 0) return { done: true, value: this.#read(answers) }
    this.#isAsked = true
    return { done: false, value: { statements: this.#statements } }
  }
}

/** A query of several steps, written as a generator. */
export function steps<T>(start: () => Generator<Step, T, readonly Answer[]>): Query<T> {
  return new Query(start)
}

function single<T>(statement: Statement, read: (answer: Answer) => T): Query<T> {
  return plainly([statement], ([answer]) => read(answer!))
}

/** The rows of a statement, typed by the caller. */
export function all<Row>(sql: string, ...values: readonly Value[]): Query<Row[]> {
  return single({ sql, values, wants: 'rows' }, ({ rows }) => rows as Row[])
}

/** The first row of a statement. */
export function one<Row>(sql: string, ...values: readonly Value[]): Query<Row | undefined> {
  return single({ sql, values, wants: 'rows' }, ({ rows }) => rows[0] as Row | undefined)
}

/**
 * One or more values as the list of `IN`. The list is as long as the next power of two, and repeats the last value: else each
 * number of values would be a statement of its own, to be prepared and kept.
 */
function listed(given: readonly Value[]): { list: string; values: readonly Value[] } {
  const length = 2 ** Math.ceil(Math.log2(given.length))
  const values = Array.from({ length }, (_, at) => given[Math.min(at, given.length - 1)]!)
  return { list: `(${values.map(() => '?').join()})`, values }
}

/**
 * The rows of some ids, each in the place of its id: in one statement, since for a row a statement costs more than the reading.
 *
 * @param sql ends in `IN`, and selects the id as `id`
 */
export function eachOf<Row extends { id: string }>(sql: string, ids: readonly string[]): Query<(Row | undefined)[]> {
  if (ids.length === 0) return nothing([])
  const { list, values } = listed(ids)
  return all<Row>(`${sql}${list}`, ...values).map((rows) => {
    const byId = new Map(rows.map((row) => [row.id, row]))
    return ids.map((id) => byId.get(id))
  })
}

/** How many rows a statement changed. */
export function run(sql: string, ...values: readonly Value[]): Query<number> {
  return single({ sql, values, wants: 'changes' }, ({ changes }) => changes)
}

/** A query that asks for nothing. */
export function nothing<T>(value: T): Query<T> {
  return plainly([], () => value)
}

type Values<Q extends readonly Query<unknown>[]> = { -readonly [I in keyof Q]: Q[I] extends Query<infer T> ? T : never }

/**
 * Runs queries side by side: the first step of each in one round trip, then the second step of each.
 *
 * The statements of one step run in the order of the queries. None of the queries may take a lock.
 */
export function together<Q extends readonly Query<unknown>[]>(...queries: Q): Query<Values<Q>> {
  const given: readonly Query<unknown>[] = queries
  const joined = given.every(isPlain) ? plainTogether(given) : new Query<unknown[]>(() => sideBySide(given))
  return joined as Query<Values<Q>>
}

function plainTogether(queries: readonly PlainQuery<unknown>[]): Query<unknown[]> {
  const read = (answers: readonly Answer[]) => {
    let from = 0
    return queries.map((query) => {
      const own = answers.slice(from, from + query.plain.length)
      from += own.length
      return query.read(own)
    })
  }
  return plainly(
    queries.flatMap(({ plain }) => plain),
    read,
  )
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
  if (!isPlain(query)) return new Query(() => withMore(query, more))
  const own = query.plain.length
  return plainly([...query.plain, ...more], (answers) => query.read(answers.slice(0, own)))
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
 * Keeps all other changes that take the same lock waiting until this one is committed, at every process.
 *
 * For rules that a conditional statement cannot hold, such as a limit over several rows. Take it first: what was read
 * before may have changed. A query that only reads takes none.
 */
export function lock(name: string): Query<void> {
  return new Query(function* () {
    yield { lock: name }
  })
}
