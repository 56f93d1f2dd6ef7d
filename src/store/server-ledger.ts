import { databaseAddress } from '../config/database-url.ts'
import type { Logger } from '../lib/logger.ts'
import { pause } from '../lib/wait.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { StoreError } from './store-error.ts'

const AGAIN_MS = 1_000

/** A ledger in PostgreSQL that this process holds. */
export type ServerLedger = {
  database: LedgerDatabase
  /** The database, as it may be shown: host:port/name. */
  server: string
  /** Aborts if another process has taken the ledger over. The reason says so. */
  lost: AbortSignal
}

/** Waits if another process holds the ledger, instead of failing. */
export type WaitForLedger = {
  signal: AbortSignal
  /** Called once, before the wait. @param reason who holds the ledger, for people */
  waiting(reason: string): void
}

type ServerLedgerOptions = { logger: Logger; wait?: WaitForLedger | undefined; isShared?: boolean | undefined }

/** The database of a URL, as it may be shown. */
export function serverName(url: string): string {
  const { host, port, database } = databaseAddress(url)
  return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`
}

/**
 * Opens a ledger in PostgreSQL for this process, alone unless it is shared.
 *
 * @throws StoreError `STORE_IN_USE` if another process holds it and `wait` is missing, `STORE_AWAY`, `STORE_UNREADABLE`
 */
export async function openServerLedger(
  url: string,
  { logger, wait, isShared }: ServerLedgerOptions,
): Promise<ServerLedger> {
  // Loaded here, since most nodes have no server.
  const { openPostgres } = await import('./postgres/open-postgres.ts')
  const server = serverName(url)
  const ending = new AbortController()
  const onLost = (error: StoreError) => {
    logger.error({ err: error }, 'another process has taken over the ledger: this node stops')
    ending.abort(error)
  }
  const open = (waiting: { takeMs?: number; signal?: AbortSignal }) =>
    openPostgres({ address: url, onLost, ...(isShared === true && { isShared }), ...waiting })
  let isWaiting = false
  for (;;) {
    try {
      const database = await open(isWaiting ? { takeMs: Number.POSITIVE_INFINITY, signal: wait!.signal } : {})
      return { database, server, lost: ending.signal }
    } catch (error) {
      if (!(error instanceof StoreError) || wait === undefined || wait.signal.aborted) throw error
      // The database may go away and come back while somebody waits for the ledger.
      if (error.code !== 'STORE_IN_USE' && !(isWaiting && error.code === 'STORE_AWAY')) throw error
      if (isWaiting) await pause(AGAIN_MS, wait.signal)
      else wait.waiting(error.message)
      isWaiting = true
    }
  }
}
