import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { CodedError } from '../lib/errors.ts'
import { dataDirError, dataFile } from './data-dir.ts'

/** Holds a data directory for this process until it is released or the process ends. */
type Lock = { release(): void }

const SQLITE_BUSY = 5
const SQLITE_FULL = 13
const SQLITE_NOTADB = 26

/**
 * Locks the data directory for this process: one stoa per directory (D3).
 *
 * The lock is an exclusive SQLite transaction on an empty database. The kernel releases it with the process, also after
 * SIGKILL or a power cut, so no stale lock remains. The pid file only serves the error message.
 *
 * Trap: POSIX locks vanish when this process closes any descriptor of the file. Nothing else may open lock.db.
 *
 * @throws CodedError<'DATA_DIR_LOCKED'> naming the pid, or 'DATA_DIR_UNUSABLE'
 */
export function lockDataDir(dataDir: string): Lock {
  const path = dataFile(dataDir, 'lock')
  const pidPath = dataFile(dataDir, 'lockPid')
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(path, { timeout: 0 })
    chmodSync(path, 0o600)
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE')
    writeFileSync(pidPath, `${process.pid}\n`, { mode: 0o600 })
  } catch (error) {
    close(database)
    throw lockError(dataDir, error)
  }
  let held = true
  return {
    release() {
      if (!held) return
      held = false
      // Remove the pid file while we hold the lock: later the file may belong to the next holder.
      rmSync(pidPath, { force: true })
      close(database)
    },
  }
}

/** The pid in the pid file, if that process lives. The process may no longer hold the lock. */
export function lockHolder(dataDir: string): number | undefined {
  try {
    const pid = Number(readFileSync(dataFile(dataDir, 'lockPid'), 'utf8').trim())
    return Number.isSafeInteger(pid) && pid > 0 && isAlive(pid) ? pid : undefined
  } catch {
    return undefined
  }
}

/** True if a process with this pid exists, also one of another user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function lockError(dataDir: string, error: unknown): CodedError<'DATA_DIR_LOCKED' | 'DATA_DIR_UNUSABLE'> {
  const code = (error as { errcode?: number }).errcode
  if (code !== undefined && (code & 0xff) === SQLITE_BUSY) {
    const pid = lockHolder(dataDir)
    const who = pid === undefined ? 'another stoa' : `another stoa (pid ${pid})`
    return new CodedError('DATA_DIR_LOCKED', `${who} uses ${dataDir}: stop it, or choose another --data-dir`, {
      cause: error,
    })
  }
  if (code === SQLITE_NOTADB) {
    return new CodedError(
      'DATA_DIR_UNUSABLE',
      `${dataFile(dataDir, 'lock')} is damaged: delete it while no stoa runs (it holds no data)`,
      { cause: error },
    )
  }
  const isFull = code !== undefined && (code & 0xff) === SQLITE_FULL
  return dataDirError(dataDir, isFull ? Object.assign(new Error('full', { cause: error }), { code: 'ENOSPC' }) : error)
}

function close(database: DatabaseSync | undefined): void {
  if (database?.isOpen) database.close()
}
