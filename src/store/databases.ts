import { isoTime } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { checkFinished } from './copy/unfinished.ts'
import { dataFile } from './data-dir.ts'
import { type Database, openDatabase } from './database.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { copiedError, readCopied, readMet } from './ledger-home.ts'
import { ledgerId } from './ledger-id.ts'
import { readMark, writeMark } from './ledger-mark.ts'
import { claimLedger, giveLedger, type LedgerOwner } from './ledger-owner.ts'
import { openLedger } from './open-ledger.ts'
import { openServerLedger, type ServerLedger, type WaitForLedger } from './server-ledger.ts'

/** The databases of a node. Without DATABASE_URL both are `stoa.db`. */
export type Databases = {
  /** The ledger: what money, promises and people depend on. */
  database: LedgerDatabase
  /** What belongs to this process alone: listings of others, their index, peers, measures, imports. */
  localDatabase: Database
  /** The PostgreSQL database that holds the ledger, as it may be shown. */
  server: string | undefined
  /** Other processes use the ledger too. */
  isShared: boolean
  /** Aborts if another process has taken the ledger over. */
  lost: AbortSignal
  /** Refuses a ledger of another node. @throws CodedError LEDGER_OF_ANOTHER */
  claim(owner: LedgerOwner): Promise<void>
  close(): Promise<void>
}

type DatabasesOptions = {
  logger: Logger
  url: string | undefined
  wait?: WaitForLedger | undefined
  /** Lets other processes in that share the ledger too. */
  isShared?: boolean | undefined
  /** The operator confirms that no other node uses the ledger: who claims it owns it. */
  adopt?: boolean
}

/** Whether the ledger in the directory holds anything that a new ledger would forget. */
const HOLDS = `
  SELECT EXISTS (SELECT 1 FROM payments) OR EXISTS (SELECT 1 FROM orders) OR EXISTS (SELECT 1 FROM exchanges)
    OR EXISTS (SELECT 1 FROM authorizations) OR EXISTS (SELECT 1 FROM chain_transactions) AS holds`

/** @throws CodedError, StoreError: see `openLedger`, `openServerLedger` */
export async function openDatabases(
  dataDir: string,
  { logger, url, wait, isShared = false, adopt = false }: DatabasesOptions,
): Promise<Databases> {
  if (url !== undefined) {
    const server = await openServerLedger(url, { logger, wait, isShared })
    return openApart(dataDir, server, { logger, isShared, adopt })
  }
  const database = await openLedger(dataDir, { logger, adopt })
  return {
    ...{ database, localDatabase: database, server: undefined, isShared: false, lost: new AbortController().signal },
    claim: async () => {},
    close: () => database.close(),
  }
}

/** The ledger in PostgreSQL, and the rest in the data directory. */
async function openApart(
  dataDir: string,
  { database, server, lost }: ServerLedger,
  { logger, isShared, adopt }: { logger: Logger; isShared: boolean; adopt: boolean },
): Promise<Databases> {
  let localDatabase: Database | undefined
  try {
    localDatabase = openDatabase({
      path: dataFile(dataDir, 'database'),
      alone: true,
      onDamage: (err) =>
        logger.error({ err }, 'stoa.db is damaged: stop the node and delete it. The ledger is not in it'),
    })
    await checkServer(dataDir, { database, localDatabase, server })
    if (!adopt) await checkOthers(database, { dataDir, server })
  } catch (error) {
    await localDatabase?.close()
    await database.close()
    throw error
  }
  const local = localDatabase
  return {
    ...{ database, localDatabase, server, isShared, lost },
    claim: (owner) => (adopt ? giveLedger(database, owner) : claimLedger(database, owner, server)),
    async close() {
      // The next process waits for the ledger.
      await local.close().finally(() => database.close())
    },
  }
}

type Apart = Pick<Databases, 'database' | 'localDatabase'> & { server: string }

/** @throws CodedError LEDGER_LOST, LEDGER_COPY_FAILED */
async function checkServer(dataDir: string, { database, localDatabase, server }: Apart): Promise<void> {
  await checkFinished(database)
  const mark = await readMark(dataDir)
  const id = await ledgerId(database)
  if (mark !== undefined && mark.ledger !== id) {
    const holds = localDatabase.one<{ holds: number }>(HOLDS)!.holds === 1
    if (mark.server !== undefined) throw lost(dataDir, { server, last: mark.server })
    if (holds) throw notCopied(dataDir, server)
  }
  await writeMark(dataDir, { ledger: id, closed: true, server })
}

/** @throws CodedError LEDGER_COPIED */
async function checkOthers(
  database: LedgerDatabase,
  { dataDir, server }: { dataDir: string; server: string },
): Promise<void> {
  const [met, copiedTo] = await Promise.all([readMet(database), readCopied(database)])
  if (met !== undefined) throw copiedError(dataDir, { met: isoTime(met) })
  if (copiedTo !== undefined) throw copiedError(dataDir, { copiedTo, from: `PostgreSQL at ${server}` })
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
    `${dataFile(dataDir, 'database')} holds the ledger of this node, and PostgreSQL at ${server} holds another one. ` +
      `To go on with the ledger of this node in an empty database, run: ${copy}. To leave it behind for good, move stoa.db ` +
      'and ledger.json away: the node then forgets its sales and what it is owed',
  )
}
