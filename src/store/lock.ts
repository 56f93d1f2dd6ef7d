import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { dataFile } from './data-dir.ts'

/** Holds a data directory for this process until it is released, or the process ends in whatever way. */
export type Lock = { release(): void }

const SQLITE_BUSY = 5
const SQLITE_NOTADB = 26

/**
 * Takes the data directory for this process: one stoa per directory (D3).
 *
 * The lock is an exclusive SQLite transaction on a file that holds nothing. The kernel drops it with the process,
 * SIGKILL and power cut included, so there is no stale lock to clean up. The pid stands beside it only for the message.
 *
 * Trap: POSIX locks vanish when any descriptor of the file is closed by this process. Nothing else may open lock.db.
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
      // While it is still ours: afterwards the file may be the next holder's.
      rmSync(pidPath, { force: true })
      close(database)
    },
  }
}

/** Pid of the process that wrote its name beside the lock, if it lives. It need not hold the lock any more. */
export function lockHolder(dataDir: string): number | undefined {
  try {
    const pid = Number(readFileSync(dataFile(dataDir, 'lockPid'), 'utf8').trim())
    return Number.isSafeInteger(pid) && pid > 0 && isAlive(pid) ? pid : undefined
  } catch {
    return undefined
  }
}

/** Whether a process of this pid exists; one that belongs to another user counts. */
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
  return new CodedError('DATA_DIR_UNUSABLE', `${dataDir} cannot be locked: ${reasonOf(error)}`, { cause: error })
}

function close(database: DatabaseSync | undefined): void {
  if (database?.isOpen) database.close()
}
