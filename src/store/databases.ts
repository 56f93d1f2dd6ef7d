import type { Logger } from '../lib/logger.ts'
import type { Database } from './database.ts'
import { openLedger } from './open-ledger.ts'

/** The databases of a node. Without DATABASE_URL both are `stoa.db`. */
export type Databases = {
  /** The ledger: what money, promises and people depend on. */
  database: Database
  /** What belongs to this process alone: listings of others, their index, peers, measures, imports. */
  localDatabase: Database
  close(): Promise<void>
}

/** @throws CodedError, StoreError: see `openLedger` */
export async function openDatabases(dataDir: string, { logger }: { logger: Logger }): Promise<Databases> {
  const database = await openLedger(dataDir, { logger })
  return { database, localDatabase: database, close: () => database.close() }
}
