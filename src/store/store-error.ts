import { CodedError } from '../lib/errors.ts'
import { type Caller, permits } from '../schema/caller.ts'

/**
 * `STORE_AWAY`: the database cannot be reached. What was asked for is not done, and may be asked for again.
 * `STORE_REFUSED`: the database does not take what a query holds. It refuses the same again, so nobody waits for it.
 * `STORE_IN_DOUBT`: the connection was lost while a change was committed. It may be done: look before it is asked for again.
 */
export class StoreError extends CodedError<
  | 'STORE_UNREADABLE'
  | 'STORE_NEWER'
  | 'STORE_WRITE_FAILED'
  | 'STORE_REFUSED'
  | 'STORE_DAMAGED'
  | 'STORE_IN_USE'
  | 'STORE_AWAY'
  | 'STORE_IN_DOUBT'
> {
  override name = 'StoreError'
}

/** A change lost its connection each time it was made, and nothing of it is written. A shorter change may pass. */
export class ConnectionBroken extends StoreError {}

/** True if the ledger does not answer now and may do so later. Nothing follows from such an error but that one waits. */
export function isLedgerAway(error: unknown): boolean {
  return error instanceof StoreError && PASSING.has(error.code)
}

/** True if nothing can be written now, for example on a full disk. What was to be written is not. */
export function isUnwritable(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'STORE_WRITE_FAILED'
}

/** True if the database does not take the data. */
export function isRefused(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'STORE_REFUSED'
}

const PASSING: ReadonlySet<string> = new Set(['STORE_AWAY', 'STORE_IN_DOUBT', 'STORE_IN_USE', 'STORE_WRITE_FAILED'])

const PLACELESS: Record<StoreError['code'], string> = {
  STORE_UNREADABLE: 'the ledger of this node cannot be used',
  STORE_NEWER: 'a later version of stoa wrote the ledger of this node',
  STORE_WRITE_FAILED: 'this node cannot write its ledger now: ask again later',
  STORE_REFUSED: 'the ledger of this node does not take what the request holds: change the request',
  STORE_DAMAGED: 'the ledger of this node is damaged',
  STORE_IN_USE: 'another process uses the ledger of this node',
  STORE_AWAY: 'the ledger of this node does not answer now: ask again later',
  STORE_IN_DOUBT: 'the change may be written: look what is there before you ask again',
}

/** What is said of an error to people who may not know where the ledger is: its message names the database, user and host. */
export function withoutPlace(code: StoreError['code']): string {
  return `${PLACELESS[code]}; the operator finds the reason by stoa doctor`
}

/**
 * An error as a caller is told it. Only who may do everything reads where the ledger is.
 *
 * @param caller undefined: nobody knows who asks
 */
export function toldTo(caller: Caller | undefined, error: unknown): unknown {
  const isAdmin = caller !== undefined && permits(caller.scope, 'admin')
  if (isAdmin || !(error instanceof StoreError)) return error
  return new StoreError(error.code, withoutPlace(error.code), { cause: error })
}
