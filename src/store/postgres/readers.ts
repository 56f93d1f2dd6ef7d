import { backoffMs } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import type { Answer, Query, Statement, Step } from '../query.ts'
import { StoreError } from '../store-error.ts'
import type { Outcome } from './batch.ts'
import type { Connection } from './connection.ts'
import { away, isConflict, isStalePlan, storeError } from './errors.ts'
import { BEGIN_READING, COMMIT, ROLLBACK, type Sent, sentOf } from './sent.ts'
import type { PostgresSettings } from './settings.ts'
import { translate } from './translate.ts'

type ReaderDeps = {
  settings: PostgresSettings
  connect(): Promise<Connection>
  /** How long a read waits while the database is away. */
  waitMs: number
}

const CONNECTIONS_MAX = 4
const WAITING_MAX = 20_000
const TRIES_MAX = 5
const BACKOFF = { firstMs: 20, mostMs: 1_000 }

/** What came of one try to read. Without a value it may be tried again. */
type Reading<T> = { readonly value: T } | { readonly error: Error; readonly isLost: boolean }

/** A few connections that read. */
export class Readers {
  readonly #deps: ReaderDeps
  #idle: Connection[] = []
  #count = 0
  #waiting: ((connection: Connection | undefined) => void)[] = []
  #isClosed = false

  constructor(deps: ReaderDeps) {
    this.#deps = deps
  }

  async query<T>(query: Query<T>): Promise<T> {
    const { settings, waitMs } = this.#deps
    const deadline = performance.now() + waitMs
    for (let failures = 1; ; failures += 1) {
      const reading = await this.#tryOnce(query)
      if ('value' in reading) return reading.value
      const { error, isLost } = reading
      if (isLost ? performance.now() >= deadline || this.#isClosed : failures >= TRIES_MAX || !mayPass(error)) {
        throw isLost ? away(error, settings) : storeError(error, settings)
      }
      await pause(backoffMs(failures, BACKOFF))
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const idle = this.#idle
    this.#idle = []
    for (const waiting of this.#waiting.splice(0)) waiting(undefined)
    await Promise.all(idle.map((connection) => connection.close()))
  }

  async #tryOnce<T>(query: Query<T>): Promise<Reading<T>> {
    let connection: Connection
    try {
      connection = await this.#take()
    } catch (error) {
      return { error: error as Error, isLost: true }
    }
    const tail: Promise<unknown>[] = []
    try {
      return await readOn(connection, query, tail)
    } finally {
      // The reader has its value. The connection is free when its transaction has ended.
      Promise.all(tail).then(() => this.#giveBack(connection))
    }
  }

  async #take(): Promise<Connection> {
    if (this.#isClosed) throw new StoreError('STORE_AWAY', `${this.#deps.settings.name} is closed`)
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (!idle.isLost()) return idle
      this.#count -= 1
    }
    if (this.#count < CONNECTIONS_MAX) return await this.#open()
    if (this.#waiting.length >= WAITING_MAX) {
      throw new StoreError('STORE_AWAY', `${this.#deps.settings.name} is too slow: too many reads wait`)
    }
    const connection = await new Promise<Connection | undefined>((resolve) => this.#waiting.push(resolve))
    return connection ?? (await this.#take())
  }

  async #open(): Promise<Connection> {
    this.#count += 1
    try {
      return await this.#deps.connect()
    } catch (error) {
      this.#count -= 1
      // It may try to open one itself.
      this.#waiting.shift()?.(undefined)
      throw error
    }
  }

  #giveBack(connection: Connection): void {
    if (connection.isLost() || this.#isClosed) {
      this.#count -= 1
      void connection.close()
      this.#waiting.shift()?.(undefined)
      return
    }
    const waiting = this.#waiting.shift()
    if (waiting !== undefined) waiting(connection)
    else this.#idle.push(connection)
  }
}

function mayPass(error: unknown): boolean {
  return isConflict(error) || isStalePlan(error)
}

/**
 * One statement is sent alone. Several see one state of the ledger, in a transaction that only reads.
 *
 * @param tail what the connection does when the value is there
 */
async function readOn<T>(connection: Connection, query: Query<T>, tail: Promise<unknown>[]): Promise<Reading<T>> {
  const asking = query[Symbol.iterator]()
  let result = asking.next()
  const isPlain = query.plain !== undefined
  const isAlone = isPlain && query.plain.length === 1
  let isBegun = false
  try {
    while (result.done !== true) {
      const statements = statementsOf(result.value)
      const head: Sent[] = isAlone || isBegun ? [] : [BEGIN_READING]
      const sent = [...head, ...statements, ...(isPlain && !isAlone ? [COMMIT] : [])]
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
  return 'lock' in step ? [] : step.statements.map(readingOf)
}

function readingOf(statement: Statement): Sent {
  if (translate(statement.sql).reads) return sentOf(statement)
  throw new TypeError(`a change was given to query(), which only reads: ${statement.sql}`)
}

function answersOf(answers: readonly Answer[], from: number, count: number): readonly Answer[] {
  return answers.slice(from, from + count)
}
