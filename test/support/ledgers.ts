import { describe, onTestFinished } from 'vitest'
import { openDatabase } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { borrowTestDatabase } from './test-postgres.ts'

type Engine = 'SQLite' | 'PostgreSQL'
/** An empty ledger, which is closed when the test ends. */
type Open = () => Promise<LedgerDatabase>
/** Two writers of one ledger. On SQLite one process has the file, so both are one. */
type OpenTwo = () => Promise<[LedgerDatabase, LedgerDatabase]>

/** Declares tests once for each engine of the ledger. */
export function onBothEngines(declare: (open: Open, openTwo: OpenTwo, engine: Engine) => void): void {
  describe('on SQLite', () => declare(openSqlite, openSqliteTwice, 'SQLite'))
  describe('on PostgreSQL', () => declare(openOnPostgres, openPostgresTwice, 'PostgreSQL'))
}

/** A ledger as a process has it that has ended: what it does there is left behind. */
export function asEnded(database: LedgerDatabase): LedgerDatabase {
  return { ...database, process: 'a process that has ended' }
}

async function openSqlite(): Promise<LedgerDatabase> {
  const database = openDatabase({ path: ':memory:' })
  // The test may have closed it.
  onTestFinished(() => database.close().catch(() => {}))
  return database
}

async function openSqliteTwice(): Promise<[LedgerDatabase, LedgerDatabase]> {
  const database = await openSqlite()
  return [database, database]
}

async function openOnPostgres(): Promise<LedgerDatabase> {
  const [database] = await openShared(1)
  return database!
}

async function openPostgresTwice(): Promise<[LedgerDatabase, LedgerDatabase]> {
  const [first, second] = await openShared(2)
  return [first!, second!]
}

/** Processes that share one ledger in PostgreSQL. */
export async function openShared(count: number): Promise<LedgerDatabase[]> {
  const database = await borrowTestDatabase()
  const ledgers: LedgerDatabase[] = []
  onTestFinished(async () => {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.giveBack()
  })
  for (let made = 0; made < count; made += 1) {
    ledgers.push(await openPostgres({ address: database.address() }))
  }
  return ledgers
}
