import { randomUUID } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementResultingChanges, type StatementSync } from 'node:sqlite'
import { reasonOf } from '../lib/errors.ts'
import { codeOf, damagedError, openError } from './file-errors.ts'
import { LastRefusal } from './last-refusal.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { migrate } from './migrate.ts'
import { joinAlone } from './ownership.ts'
import { nothing } from './query.ts'
import { readsOfATurn } from './reads-of-a-turn.ts'
import { runOnSqlite } from './sqlite-query.ts'
import { StoreError } from './store-error.ts'

/** Values in the order of their placeholders, or one object with their names. */
type BoundValues = SQLInputValue[] | [Record<string, SQLInputValue>]

/**
 * The node's SQLite database. One process holds it (see lock.ts).
 *
 * The ledger uses it as a `LedgerDatabase`. What belongs to this process alone (listings, measures, peers) reads it
 * synchronously.
 */
export type Database = LedgerDatabase & {
  /** A prepared statement, cached by its text. */
  prepare(sql: string): StatementSync
  /** The rows of a query, typed by the caller. */
  all<Row>(sql: string, ...values: BoundValues): Row[]
  one<Row>(sql: string, ...values: BoundValues): Row | undefined
  run(sql: string, ...values: BoundValues): StatementResultingChanges
  /** Like `write`, for one statement. */
  writeOne(sql: string, ...values: BoundValues): Promise<void>
  /**
   * Runs `fn` in the next grouped transaction and resolves with its value once the commit is on disk
   * (`synchronous=FULL`).
   *
   * Writes of the same turn of the event loop share one commit, so durability costs one flush per group. `fn` is
   * synchronous and touches only the database. If another member of the group throws, the group is rolled back and each
   * member runs again alone.
   *
   * @throws StoreError `STORE_WRITE_FAILED` if the disk refuses, `STORE_DAMAGED` after a damaged page was found, or the
   * error of `fn`. Nothing was written then.
   */
  write<T>(fn: () => T): Promise<T>
  /** Like `write`, for writes that nobody waits for. Joins the next commit, or gets its own after 10 ms. */
  writeLater<T>(fn: () => T): Promise<T>
  /** Why a write of the last minute could not be written. */
  refused(): StoreError | undefined
  /** Marks the file as damaged, after a check found it. */
  condemn(reason: string): void
}

type Job = { run: () => unknown; resolve: (value: unknown) => void; reject: (reason: unknown) => void }

const SQLITE_BUSY = 5
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26
/** Too large, against a rule of a table, of another type: it is refused again, whatever the state of the disk. */
const OF_DATA = new Set([18, 19, 20])
const STATEMENTS_MAX = 500
const LATER_MS = 10
/**
 * A statement that may fail midway copies each page before it changes it, into a file from the eighth page on: the open, the
 * writes and the close take longer than the statement. What is read may be large, so it sorts in files.
 */
const KEPT_IN_MEMORY = 'PRAGMA temp_store = MEMORY'
const SORTED_IN_FILES = 'PRAGMA temp_store = FILE'
const USED_BYTES = `
  SELECT (page_count - freelist_count) * page_size AS bytes FROM pragma_page_count, pragma_freelist_count, pragma_page_size`

export type DatabaseOptions = {
  path: string
  /** No other process may have the file open at the start, or open it `alone` later. Others may read it. */
  alone?: boolean
  /** Called once, when a read or a write finds damage. */
  onDamage?(error: StoreError): void
}

/**
 * Opens the database file, or one in memory, and migrates its schema.
 *
 * @throws StoreError `STORE_UNREADABLE` if the file is not a Stoa database, `STORE_NEWER` if a later version wrote it,
 * `STORE_IN_USE`
 */
export function openDatabase(options: DatabaseOptions): Database {
  const process = randomUUID()
  const sqlite = connect(options, process)
  let damaged: StoreError | undefined
  const refusal = new LastRefusal()
  const statements = new Map<string, StatementSync>()
  let waiting: Job[] = []
  let scheduled = false
  let later: NodeJS.Timeout | undefined

  function prepare(sql: string): StatementSync {
    let statement = statements.get(sql)
    if (statement === undefined) {
      if (statements.size >= STATEMENTS_MAX) statements.clear()
      statement = watched(sqlite.prepare(sql), { noted, bound: /\?\d/.test(sql) ? byNumber : inOrder })
      statements.set(sql, statement)
    }
    return statement
  }

  function condemn(reason: string, cause?: unknown): StoreError {
    if (damaged === undefined) {
      damaged = damagedError(options.path, reason, cause)
      options.onDamage?.(damaged)
    }
    return damaged
  }

  /** Turns an error of a statement into the error to throw. */
  function noted(error: unknown): unknown {
    return isDamage(error) ? condemn(reasonOf(error), error) : error
  }

  function flush(): void {
    const jobs = waiting
    waiting = []
    scheduled = false
    clearTimeout(later)
    later = undefined
    if (jobs.length === 0) return
    try {
      const values = transaction(jobs)
      for (const [index, job] of jobs.entries()) job.resolve(values[index])
    } catch (error) {
      if (jobs.length === 1) jobs[0]!.reject(error)
      else for (const job of jobs) alone(job)
    }
  }

  function alone(job: Job): void {
    try {
      job.resolve(transaction([job])[0])
    } catch (error) {
      job.reject(error)
    }
  }

  function transaction(jobs: readonly Job[]): unknown[] {
    // A write to a damaged file may damage it further, and the reads it relies on may be wrong.
    if (damaged !== undefined) throw damaged
    try {
      sqlite.exec(KEPT_IN_MEMORY)
      prepare('BEGIN IMMEDIATE').run()
      const values = jobs.map((job) => job.run())
      prepare('COMMIT').run()
      return values
    } catch (error) {
      if (sqlite.isTransaction) prepare('ROLLBACK').run()
      throw refusal.note(asStoreError(error))
    } finally {
      sqlite.exec(SORTED_IN_FILES)
    }
  }

  function enqueue<T>(fn: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      waiting.push({ run: fn, resolve: resolve as (value: unknown) => void, reject })
    })
  }

  function write<T>(fn: () => T): Promise<T> {
    if (!scheduled) setImmediate(flush)
    scheduled = true
    return enqueue(fn)
  }

  function writeLater<T>(fn: () => T): Promise<T> {
    if (!scheduled) later ??= setTimeout(flush, LATER_MS)
    return enqueue(fn)
  }
  const reads = readsOfATurn({ exec: (sql) => void prepare(sql).run(), isBegun: () => sqlite.isTransaction })
  const run: Database['run'] = (sql, ...values) => prepare(sql).run(...(values as SQLInputValue[]))

  return {
    process,
    query: (query) => reads.read(() => runOnSqlite(prepare, query)),
    commit: (change) => write(() => runOnSqlite(prepare, change)),
    commitLater: (change) => writeLater(() => runOnSqlite(prepare, change)),
    note: () => nothing(undefined),
    // A file does not shrink: its free pages are reused.
    usedBytes: async () => (prepare(USED_BYTES).get() as { bytes: number }).bytes,
    prepare,
    all: <Row>(sql: string, ...values: BoundValues) => prepare(sql).all(...(values as SQLInputValue[])) as Row[],
    one: <Row>(sql: string, ...values: BoundValues) =>
      prepare(sql).get(...(values as SQLInputValue[])) as Row | undefined,
    run,
    write,
    writeOne: (sql, ...values) => write(() => void run(sql, ...values)),
    writeLater,
    damage: () => damaged,
    refused: () => refusal.current(),
    condemn: (reason) => void condemn(reason),
    async close() {
      flush()
      reads.readAll()
      statements.clear()
      sqlite.close()
    },
  }
}

/**
 * A task and its result make rows of a kilobyte or two: pages of SQLite's default size hold one of them, and each commit
 * writes every page that it touched. A file keeps the page size that it was made with. The cache holds what each call
 * looks at: the pages of the indices by random ids.
 */
const SETTINGS = `
  PRAGMA busy_timeout = 5000; PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
  PRAGMA cache_size = -16384`

function connect({ path, alone = false }: DatabaseOptions, process: string): DatabaseSync {
  let sqlite: DatabaseSync | undefined
  try {
    sqlite = new DatabaseSync(path)
    // The file holds tasks and results. SQLite gives its -wal and -shm files the same mode.
    if (path !== ':memory:') chmodSync(path, 0o600)
    sqlite.exec(SETTINGS)
    if (alone) proveAlone(sqlite, path)
    migrate(sqlite, path)
    if (alone || path === ':memory:') sqlite.exec(joinAlone(process))
    return sqlite
  } catch (error) {
    if (sqlite?.isOpen === true) sqlite.close()
    if (error instanceof StoreError) throw error
    throw openError(path, error)
  }
}

/**
 * Takes the whole file for a moment, then shares it again. Fails while another process has it open.
 *
 * From here on this process holds the file shared until it closes it. So a second node is refused even if the lock
 * files (lock.ts) were deleted meanwhile. Trap: as with the lock files, no other descriptor of the file may be closed
 * by this process.
 */
function proveAlone(sqlite: DatabaseSync, path: string): void {
  try {
    // Read once, so that the index of the WAL is in use. Otherwise it would stay in this process's own memory.
    sqlite.prepare('SELECT count(*) FROM sqlite_schema').get()
    sqlite.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT')
    sqlite.exec('PRAGMA locking_mode = NORMAL; BEGIN IMMEDIATE; COMMIT')
  } catch (error) {
    if (codeOf(error) !== SQLITE_BUSY) throw error
    const fix = 'stop that one (another stoa?) or wait until it is done, then start again'
    throw new StoreError('STORE_IN_USE', `another process has ${path} open: ${fix}`, { cause: error })
  }
}

const inOrder = (args: unknown[]) => args
/** Node.js 22 takes arguments in order for `?` alone, and `?1` for a name. Later versions take both for both. */
const byNumber = (args: unknown[]) => [Object.fromEntries(args.map((value, index) => [`?${index + 1}`, value]))]

type Watch = { noted(error: unknown): unknown; bound(args: unknown[]): unknown[] }

/** Wraps a statement: `bound` prepares its arguments, and every error it throws passes through `noted` first. */
function watched(statement: StatementSync, { noted, bound }: Watch): StatementSync {
  for (const name of ['run', 'get', 'all'] as const) {
    const call = statement[name].bind(statement) as (...args: unknown[]) => unknown
    const careful = (...args: unknown[]) => {
      try {
        return call(...bound(args))
      } catch (error) {
        throw noted(error)
      }
    }
    Object.defineProperty(statement, name, { value: careful })
  }
  const iterate = statement.iterate.bind(statement) as (...args: unknown[]) => Iterable<unknown>
  const carefully = function* (...args: unknown[]) {
    try {
      yield* iterate(...bound(args))
    } catch (error) {
      throw noted(error)
    }
  }
  Object.defineProperty(statement, 'iterate', { value: carefully })
  return statement
}

function isDamage(error: unknown): boolean {
  const code = codeOf(error)
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB
}

/** Gives SQLite's own failures (full disk, I/O, read-only, data that it refuses) a code and a hint. Errors of a job stay unchanged. */
function asStoreError(error: unknown): unknown {
  if ((error as { code?: unknown } | null)?.code !== 'ERR_SQLITE_ERROR') return error
  if (OF_DATA.has(codeOf(error) ?? 0)) {
    return new StoreError('STORE_REFUSED', `the ledger does not take this: ${reasonOf(error)}`, { cause: error })
  }
  const hint = 'check free space and permissions of the data directory'
  return new StoreError('STORE_WRITE_FAILED', `the store could not write: ${reasonOf(error)}; ${hint}`, {
    cause: error,
  })
}
