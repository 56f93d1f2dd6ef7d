import { chmodSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { migrations } from './migrations.ts'

export class StoreError extends CodedError<'STORE_UNREADABLE' | 'STORE_NEWER' | 'STORE_WRITE_FAILED'> {
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
   * @throws StoreError `STORE_WRITE_FAILED` when the disk refuses, or whatever `fn` throws; then nothing was written.
   */
  write<T>(fn: () => T): Promise<T>
  /**
   * As `write`, for what nobody waits for: it shares the commit of the next write, and has one of its own only if none
   * comes within 10 ms.
   */
  writeLater<T>(fn: () => T): Promise<T>
  /** Commits what is waiting, then closes. */
  close(): Promise<void>
}

type Job = { run: () => unknown; resolve: (value: unknown) => void; reject: (reason: unknown) => void }

const STATEMENTS_MAX = 500
const LATER_MS = 10

/**
 * Opens the database file, or one in memory, and brings its schema up to date.
 *
 * @throws StoreError `STORE_UNREADABLE` for a file that is no database of ours, `STORE_NEWER` for one of a later version
 */
export function openDatabase(options: { path: string }): Database {
  const sqlite = connect(options.path)
  const statements = new Map<string, StatementSync>()
  let waiting: Job[] = []
  let scheduled = false
  let later: NodeJS.Timeout | undefined

  function prepare(sql: string): StatementSync {
    let statement = statements.get(sql)
    if (statement === undefined) {
      if (statements.size >= STATEMENTS_MAX) statements.clear()
      statement = sqlite.prepare(sql)
      statements.set(sql, statement)
    }
    return statement
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
    async close() {
      flush()
      statements.clear()
      sqlite.close()
    },
  }
}

function connect(path: string): DatabaseSync {
  try {
    const sqlite = new DatabaseSync(path)
    // Tasks and results are in it. SQLite gives its -wal and -shm files the same mode.
    if (path !== ':memory:') chmodSync(path, 0o600)
    sqlite.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000')
    migrate(sqlite, path)
    return sqlite
  } catch (error) {
    if (error instanceof StoreError) throw error
    const fix = 'move the file away (it is kept, not deleted) or restore a backup, then start again'
    throw new StoreError('STORE_UNREADABLE', `cannot open ${path}: ${reasonOf(error)}; ${fix}`, { cause: error })
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

/** SQLite's own failures (full disk, I/O, read-only) get a code and a hint; what a job threw stays as it is. */
function asStoreError(error: unknown): unknown {
  if ((error as { code?: unknown } | null)?.code !== 'ERR_SQLITE_ERROR') return error
  const hint = 'check free space and permissions of the data directory'
  return new StoreError('STORE_WRITE_FAILED', `the store could not write: ${reasonOf(error)}; ${hint}`, {
    cause: error,
  })
}
