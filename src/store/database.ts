import { chmodSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { migrations } from './migrations.ts'

export class StoreError extends CodedError<
  'STORE_UNREADABLE' | 'STORE_NEWER' | 'STORE_WRITE_FAILED' | 'STORE_DAMAGED' | 'STORE_IN_USE'
> {
  override name = 'StoreError'
}

/** The node's SQLite database. One process holds it (see lock.ts); reads are synchronous. */
export type Database = {
  /** A prepared statement, kept by its text. */
  prepare(sql: string): StatementSync
  /**
   * Runs `fn` in the next grouped transaction and resolves with its value once that is on disk (`synchronous=FULL`).
   *
   * Writes that arrive in the same turn of the event loop share one commit, so durability costs one flush a group, not
   * one a call. `fn` is synchronous and touches nothing but the database: if another member of its group throws, the
   * group is rolled back and each runs again alone.
   *
   * @throws StoreError `STORE_WRITE_FAILED` when the disk refuses, `STORE_DAMAGED` once a page was found damaged, or whatever
   * `fn` throws; then nothing was written.
   */
  write<T>(fn: () => T): Promise<T>
  /**
   * As `write`, for what nobody waits for: it shares the commit of the next write, and has one of its own only if none
   * comes within 10 ms.
   */
  writeLater<T>(fn: () => T): Promise<T>
  /** Why nothing is written any more: the file was found damaged. Whoever trades asks first. */
  damage(): StoreError | undefined
  /** Says that the file is damaged, as a check beside has found. */
  condemn(reason: string): void
  /** Commits what is waiting, then closes. */
  close(): Promise<void>
}

type Job = { run: () => unknown; resolve: (value: unknown) => void; reject: (reason: unknown) => void }

const SQLITE_BUSY = 5
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26
const RESCUE =
  'nothing is bought or sold any more. Stop the node and restore a backup, or rescue what is left with `sqlite3 stoa.db .recover`'

const STATEMENTS_MAX = 500
const LATER_MS = 10

export type DatabaseOptions = {
  path: string
  /** Nobody else may have the file open when this begins, nor begin the same while it is open. Others may read it. */
  alone?: boolean
  /** Told once, when a read or a write finds the file damaged. */
  onDamage?(error: StoreError): void
}

/**
 * Opens the database file, or one in memory, and brings its schema up to date.
 *
 * @throws StoreError `STORE_UNREADABLE` for a file that is no database of ours, `STORE_NEWER` for one of a later version,
 * `STORE_IN_USE`
 */
export function openDatabase(options: DatabaseOptions): Database {
  const sqlite = connect(options)
  let damaged: StoreError | undefined
  const statements = new Map<string, StatementSync>()
  let waiting: Job[] = []
  let scheduled = false
  let later: NodeJS.Timeout | undefined

  function prepare(sql: string): StatementSync {
    let statement = statements.get(sql)
    if (statement === undefined) {
      if (statements.size >= STATEMENTS_MAX) statements.clear()
      statement = watched(sqlite.prepare(sql), noted)
      statements.set(sql, statement)
    }
    return statement
  }

  function condemn(reason: string, cause?: unknown): StoreError {
    if (damaged === undefined) {
      damaged = new StoreError('STORE_DAMAGED', `${options.path} is damaged (${reason}): ${RESCUE}`, { cause })
      options.onDamage?.(damaged)
    }
    return damaged
  }

  /** What a statement has thrown, as it is told. */
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
    // In the middle of a damaged file a write may make it worse, and what is read for it may be wrong.
    if (damaged !== undefined) throw damaged
    try {
      prepare('BEGIN IMMEDIATE').run()
      const values = jobs.map((job) => job.run())
      prepare('COMMIT').run()
      return values
    } catch (error) {
      if (sqlite.isTransaction) prepare('ROLLBACK').run()
      throw asStoreError(error)
    }
  }

  function enqueue<T>(fn: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      waiting.push({ run: fn, resolve: resolve as (value: unknown) => void, reject })
    })
  }

  return {
    prepare,
    write(fn) {
      if (!scheduled) setImmediate(flush)
      scheduled = true
      return enqueue(fn)
    },
    writeLater(fn) {
      if (!scheduled) later ??= setTimeout(flush, LATER_MS)
      return enqueue(fn)
    },
    damage: () => damaged,
    condemn: (reason) => void condemn(reason),
    async close() {
      flush()
      statements.clear()
      sqlite.close()
    },
  }
}

function connect({ path, alone = false }: DatabaseOptions): DatabaseSync {
  let sqlite: DatabaseSync | undefined
  try {
    sqlite = new DatabaseSync(path)
    // Tasks and results are in it. SQLite gives its -wal and -shm files the same mode.
    if (path !== ':memory:') chmodSync(path, 0o600)
    sqlite.exec('PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    if (alone) proveAlone(sqlite, path)
    migrate(sqlite, path)
    return sqlite
  } catch (error) {
    if (sqlite?.isOpen === true) sqlite.close()
    if (error instanceof StoreError) throw error
    const fix = 'move the file away (it is kept, not deleted) or restore a backup, then start again'
    throw new StoreError('STORE_UNREADABLE', `cannot open ${path}: ${reasonOf(error)}; ${fix}`, { cause: error })
  }
}

/**
 * Takes the whole file for a moment, which fails while anybody else has it open, and then shares it again.
 *
 * From here on this process holds it shared until it closes it. So of two nodes the second one is refused, though the files
 * of the lock beside it (lock.ts) were deleted meanwhile. Trap: as with those, no descriptor of it may be closed otherwise.
 */
function proveAlone(sqlite: DatabaseSync, path: string): void {
  try {
    // The index of the WAL must be in use before, or it would stay in this process's own memory.
    sqlite.prepare('SELECT count(*) FROM sqlite_schema').get()
    sqlite.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT')
    sqlite.exec('PRAGMA locking_mode = NORMAL; BEGIN IMMEDIATE; COMMIT')
  } catch (error) {
    if (codeOf(error) !== SQLITE_BUSY) throw error
    const fix = 'stop that one (another stoa?) or wait until it is done, then start again'
    throw new StoreError('STORE_IN_USE', `another process has ${path} open: ${fix}`, { cause: error })
  }
}

function migrate(sqlite: DatabaseSync, path: string): void {
  const { user_version: version } = sqlite.prepare('PRAGMA user_version').get() as { user_version: number }
  if (version > migrations.length) {
    throw new StoreError(
      'STORE_NEWER',
      `${path} was written by a later version of stoa (schema ${version}); upgrade stoa`,
    )
  }
  for (const [index, step] of migrations.entries()) {
    if (index < version) continue
    sqlite.exec(`BEGIN IMMEDIATE; ${step}; PRAGMA user_version = ${index + 1}; COMMIT`)
  }
}

/** Has whatever a statement throws looked at first. */
function watched(statement: StatementSync, noted: (error: unknown) => unknown): StatementSync {
  for (const name of ['run', 'get', 'all'] as const) {
    const call = statement[name].bind(statement) as (...args: unknown[]) => unknown
    const careful = (...args: unknown[]) => {
      try {
        return call(...args)
      } catch (error) {
        throw noted(error)
      }
    }
    Object.defineProperty(statement, name, { value: careful })
  }
  const iterate = statement.iterate.bind(statement) as (...args: unknown[]) => Iterable<unknown>
  const carefully = function* (...args: unknown[]) {
    try {
      yield* iterate(...args)
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

/** SQLite's result code, without what extends it. */
function codeOf(error: unknown): number | undefined {
  const { errcode } = (error ?? {}) as { errcode?: number }
  return errcode === undefined ? undefined : errcode & 0xff
}

/** SQLite's own failures (full disk, I/O, read-only) get a code and a hint; what a job threw stays as it is. */
function asStoreError(error: unknown): unknown {
  if ((error as { code?: unknown } | null)?.code !== 'ERR_SQLITE_ERROR') return error
  const hint = 'check free space and permissions of the data directory'
  return new StoreError('STORE_WRITE_FAILED', `the store could not write: ${reasonOf(error)}; ${hint}`, {
    cause: error,
  })
}
