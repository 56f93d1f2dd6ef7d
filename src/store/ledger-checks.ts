import { isoTime } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { unfinishedError } from './copy/unfinished.ts'
import { dataFile } from './data-dir.ts'
import type { LedgerFacts } from './ledger-facts.ts'
import { copiedError } from './ledger-home.ts'
import { BOOKS, readMark } from './ledger-mark.ts'
import { checkOwner, type KnownOwner } from './ledger-owner.ts'
import { one } from './query.ts'
import { openReadOnly } from './read-only.ts'

type User = {
  dataDir: string
  /** The database, as it may be shown. */
  server: string
  /** Undefined: it is not known yet. Then `claimLedger` asks. */
  owner: KnownOwner | undefined
  /** The operator confirms that no other node uses the ledger. */
  adopt: boolean
}

/**
 * Refuses a ledger in PostgreSQL that the node of a data directory must not use. Changes nothing: a start asks this
 * before it writes anything to the database, and `stoa doctor` asks the same.
 *
 * @param facts undefined: the database has no ledger yet
 * @throws CodedError LEDGER_COPY_FAILED, LEDGER_LOST, LEDGER_COPIED, LEDGER_OF_ANOTHER
 */
export async function checkServerLedger(facts: LedgerFacts | undefined, user: User): Promise<void> {
  const { dataDir, server, owner, adopt } = user
  if (facts?.isUnfinished === true) throw unfinishedError()
  const mark = await readMark(dataDir)
  if (mark !== undefined && mark.ledger !== facts?.id) {
    if (mark.server !== undefined) throw lost(dataDir, { server, last: mark.server })
    if (await holdsBooks(dataDir)) throw notCopied(dataDir, server)
  }
  if (adopt || facts === undefined) return
  const { met, copiedTo } = facts
  if (met !== undefined) throw copiedError(dataDir, { met: isoTime(met) })
  if (copiedTo !== undefined) throw copiedError(dataDir, { copiedTo, from: `PostgreSQL at ${server}` })
  if (owner !== undefined) checkOwner(facts.owner, owner, server)
}

/** Whether the file of a data directory holds anything that a new ledger would forget. */
async function holdsBooks(dataDir: string): Promise<boolean> {
  const file = openReadOnly(dataFile(dataDir, 'database'))
  if (file === undefined) return false
  try {
    for (const table of BOOKS) {
      if (file.has(table) && (await file.query(one(`SELECT 1 AS one FROM ${table} LIMIT 1`))) !== undefined) return true
    }
    return false
  } finally {
    file.close()
  }
}

function lost(dataDir: string, { server, last }: { server: string; last: string }): CodedError<'LEDGER_LOST'> {
  const mark = dataFile(dataDir, 'ledger')
  const where = last === server ? '' : `, which was last at ${last}`
  return new CodedError(
    'LEDGER_LOST',
    `PostgreSQL at ${server} does not hold the ledger of ${dataDir}${where}. Restore the backup, or correct DATABASE_URL. ` +
      `If there is none, delete ${mark} to go on with what is there: the node then forgets its sales and what it is owed, ` +
      'its budgets start again, and what it has signed may still be charged',
  )
}

function notCopied(dataDir: string, server: string): CodedError<'LEDGER_LOST'> {
  const copy = `stoa ledger copy --from ${dataDir} --to env:DATABASE_URL`
  return new CodedError(
    'LEDGER_LOST',
    `${dataFile(dataDir, 'database')} holds the ledger of this node, and PostgreSQL at ${server} does not hold it. ` +
      `To go on with the ledger of this node in an empty database, run: ${copy}. To leave it behind for good, move stoa.db ` +
      'and ledger.json away: the node then forgets its sales and what it is owed',
  )
}
