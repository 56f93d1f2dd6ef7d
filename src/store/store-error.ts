import { CodedError } from '../lib/errors.ts'

/**
 * `STORE_AWAY`: the database cannot be reached. What was asked for is not done, and may be asked for again.
 * `STORE_IN_DOUBT`: the connection was lost while a change was committed. It may be done: look before it is asked for again.
 */
export class StoreError extends CodedError<
  | 'STORE_UNREADABLE'
  | 'STORE_NEWER'
  | 'STORE_WRITE_FAILED'
  | 'STORE_DAMAGED'
  | 'STORE_IN_USE'
  | 'STORE_AWAY'
  | 'STORE_IN_DOUBT'
> {
  override name = 'StoreError'
}

/** True if the ledger does not answer now and may do so later. Nothing follows from such an error but that one waits. */
export function isLedgerAway(error: unknown): boolean {
  return error instanceof StoreError && PASSING.has(error.code)
}

const PASSING: ReadonlySet<string> = new Set(['STORE_AWAY', 'STORE_IN_DOUBT', 'STORE_IN_USE', 'STORE_WRITE_FAILED'])
