/** What is said of a database file that cannot be used. */
import { reasonOf } from '../lib/errors.ts'
import { StoreError } from './store-error.ts'

const SQLITE_FULL = 13
const RESCUE =
  'nothing is bought or sold any more. Stop the node and restore a backup, or rescue what is left with `sqlite3 stoa.db .recover`'

/** Nothing is wrong with a file on a full disk: moved away, it would be a ledger that is lost. */
export function openError(path: string, error: unknown): StoreError {
  if (codeOf(error) === SQLITE_FULL) {
    const fix = 'free some space and start again; leave the file where it is'
    return new StoreError('STORE_WRITE_FAILED', `the disk that holds ${path} is full: ${fix}`, { cause: error })
  }
  const fix = 'move the file away (it is kept, not deleted) or restore a backup, then start again'
  return new StoreError('STORE_UNREADABLE', `cannot open ${path}: ${reasonOf(error)}; ${fix}`, { cause: error })
}

export function newerError(path: string, schema: number): StoreError {
  return new StoreError(
    'STORE_NEWER',
    `${path} was written by a later version of stoa (schema ${schema}); upgrade stoa`,
  )
}

export function damagedError(path: string, reason: string, cause?: unknown): StoreError {
  return new StoreError('STORE_DAMAGED', `${path} is damaged (${reason}): ${RESCUE}`, { cause })
}

/** SQLite's primary result code, without the extended bits. */
export function codeOf(error: unknown): number | undefined {
  const { errcode } = (error ?? {}) as { errcode?: number }
  return errcode === undefined ? undefined : errcode & 0xff
}
