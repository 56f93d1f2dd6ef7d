import { CodedError } from '../../lib/errors.ts'
import { entry } from '../entries.ts'
import type { LedgerDatabase } from '../ledger-database.ts'

/** The entry of `kv` that a ledger has while another is copied into it. */
export const UNFINISHED_KEY = 'ledger_copy_unfinished'

export async function isUnfinished(database: Pick<LedgerDatabase, 'query'>): Promise<boolean> {
  return (await database.query(entry(UNFINISHED_KEY))) !== undefined
}

/** @throws CodedError LEDGER_COPY_FAILED if the ledger is a copy that was not finished */
export async function checkFinished(database: Pick<LedgerDatabase, 'query'>): Promise<void> {
  if (await isUnfinished(database)) throw unfinishedError()
}

export function unfinishedError(): CodedError<'LEDGER_COPY_FAILED'> {
  const fix = 'run the same stoa ledger copy again: it starts anew'
  return new CodedError('LEDGER_COPY_FAILED', `the ledger is a copy that was not finished: ${fix}`)
}
