import { systemClock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { dataFile } from './data-dir.ts'
import { type Database, openDatabase } from './database.ts'
import { noteIdentity, otherIdentityText } from './last-identity.ts'
import { noteWallet, type WalletBefore } from './last-wallet.ts'
import { type LedgerLatency, measured } from './latency.ts'
import { checkServerLedger } from './ledger-checks.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { readFacts } from './ledger-facts.ts'
import { ledgerId } from './ledger-id.ts'
import { readMark, writeMark } from './ledger-mark.ts'
import { claimLedger, giveLedger, type KnownOwner, type LedgerOwner } from './ledger-owner.ts'
import { createTurns, RESTORED_TEXT, takeTurn } from './ledger-turn.ts'
import { openLedger } from './open-ledger.ts'
import type { FoundLedger } from './postgres/look.ts'
import { openServerLedger, type ServerLedger, serverName, type WaitForLedger } from './server-ledger.ts'

/** The databases of a node. Without DATABASE_URL both are `stoa.db`. */
export type Databases = {
  /** The ledger: what money, promises and people depend on. */
  database: LedgerDatabase
  /** What belongs to this process alone: listings of others, their index, peers, measures, imports. */
  localDatabase: Database
  /** The PostgreSQL database that holds the ledger, as it may be shown. */
  server: string | undefined
  /** How long callers waited for PostgreSQL lately, and what either engine could not write. */
  latency(): LedgerLatency
  /** Other processes may use the ledger too. */
  isShared: boolean
  /** Aborts if others have taken over the work of this process. */
  lost: AbortSignal
  /**
   * Notes whose ledger it is. One in PostgreSQL refuses another owner, one in SQLite tells of another wallet or identity.
   *
   * @returns the wallet before this one, if the ledger is in SQLite and had another
   * @throws CodedError LEDGER_OF_ANOTHER
   */
  claim(owner: LedgerOwner): Promise<WalletBefore | undefined>
  /** Counts on, so that a backup that is put back is noticed. SQLite needs it only at the end. */
  count(): Promise<void>
  close(): Promise<void>
}

type DatabasesOptions = {
  logger: Logger
  url: string | undefined
  wait?: WaitForLedger | undefined
  /** No other process may use a ledger in PostgreSQL meanwhile. In SQLite it is always so. */
  isAlone?: boolean
  /** Who opens it, as far as the keys are there. A ledger of another owner is refused before anything is changed in it. */
  owner?: KnownOwner | undefined
  /** The operator confirms that no other node uses the ledger: who claims it owns it. */
  adopt?: boolean
}

/** @throws CodedError, StoreError: see `openLedger`, `openServerLedger` */
export async function openDatabases(
  dataDir: string,
  { logger, url, wait, isAlone = false, adopt = false, owner }: DatabasesOptions,
): Promise<Databases> {
  if (url !== undefined) {
    const user = { dataDir, server: serverName(url), owner, adopt }
    const check = ({ facts }: FoundLedger) => checkServerLedger(facts, user)
    return openApart(user, await openServerLedger(url, { logger, wait, isAlone, check }), logger)
  }
  const database = await openLedger(dataDir, { logger, adopt })
  return {
    ...{ database, localDatabase: database, server: undefined, isShared: false, lost: new AbortController().signal },
    latency: () => ({ read: undefined, change: undefined, refused: database.refused() }),
    async claim({ seller, wallet }) {
      const before = await noteIdentity(database, seller)
      if (before !== undefined) logger.warn({ peer_id: seller }, otherIdentityText(before, seller))
      return noteWallet(database, wallet)
    },
    count: async () => {},
    close: () => database.close(),
  }
}

/** The ledger in PostgreSQL, and the rest in the data directory. */
async function openApart(
  user: Parameters<typeof checkServerLedger>[1],
  { database: held, server, lost }: ServerLedger,
  logger: Logger,
): Promise<Databases> {
  const { dataDir, adopt } = user
  const { database, latency } = measured(held)
  let localDatabase: Database | undefined
  let ledger: string
  try {
    // Again: before this process was let in, others may have changed what was looked at.
    await checkServerLedger(await readFacts(database), user)
    localDatabase = openDatabase({
      path: dataFile(dataDir, 'database'),
      alone: true,
      onDamage: (err) =>
        logger.error({ err }, 'stoa.db is damaged: stop the node and delete it. The ledger is not in it'),
    })
    ledger = await ledgerId(database)
  } catch (error) {
    await localDatabase?.close()
    await database.close()
    throw error
  }
  const local = localDatabase
  let turns: ReturnType<typeof createTurns> | undefined
  return {
    ...{ database, localDatabase, server, latency, isShared: true, lost },
    async claim(owner) {
      await (adopt ? giveLedger(database, owner) : claimLedger(database, owner, server))
      const mark = await readMark(dataDir)
      // The mark of another database says nothing of this one.
      const marked = mark?.ledger === ledger && mark.server === server ? mark.turn : undefined
      const { turn, restored } = await takeTurn(database, { marked, now: systemClock.now() })
      if (restored !== undefined) logger.warn({ count: restored.ended }, RESTORED_TEXT)
      // Not before: a start that is refused must leave the directory to the ledger that it has.
      const write = (last: number) => writeMark(dataDir, { ledger, closed: true, server, turn: last })
      await write(turn)
      turns = createTurns(database, { last: turn, logger, write })
      return undefined
    },
    count: async () => turns?.next(),
    async close() {
      // This may fail. Then the next start counts on from the mark before.
      await turns?.next().catch(() => {})
      // Who takes over may be a process on the same directory.
      await local.close().finally(() => database.close())
    },
  }
}
