import { databaseAddress } from '../config/database-url.ts'
import type { Logger } from '../lib/logger.ts'
import { toldWait } from '../lib/told-wait.ts'
import { pause } from '../lib/wait.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import type { FoundLedger } from './postgres/look.ts'
import { StoreError } from './store-error.ts'

const AGAIN_MS = 1_000

/** A ledger in PostgreSQL that this process uses. */
export type ServerLedger = {
  database: LedgerDatabase
  /** The database, as it may be shown: host:port/name. */
  server: string
  /** Aborts if others have taken over the work of this process. The reason says so. */
  lost: AbortSignal
}

/** Waits if another process has the ledger alone, instead of failing. */
export type WaitForLedger = {
  signal: AbortSignal
  /** Called once, before the wait. @param reason who has the ledger, for people */
  waiting(reason: string): void
}

type ServerLedgerOptions = {
  logger: Logger
  wait?: WaitForLedger | undefined
  /** No other process may use the ledger meanwhile. */
  isAlone?: boolean | undefined
  /** Refuses a ledger, by what is found before anything is changed. */
  check?(found: FoundLedger): Promise<void>
}

/** The database of a URL, as it may be shown. */
export function serverName(url: string): string {
  const { host, port, database } = databaseAddress(url)
  return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`
}

/**
 * Opens a ledger in PostgreSQL, beside the other processes of the seller unless this one wants it alone.
 *
 * @throws StoreError `STORE_IN_USE` if another process has it alone and `wait` is missing, `STORE_AWAY`, `STORE_UNREADABLE`
 */
export async function openServerLedger(
  url: string,
  { logger, wait, isAlone = false, check }: ServerLedgerOptions,
): Promise<ServerLedger> {
  // Loaded here, since most nodes have no server.
  const { openPostgres } = await import('./postgres/open-postgres.ts')
  const server = serverName(url)
  const ending = new AbortController()
  const onLost = (error: StoreError) => {
    logger.error({ err: error }, 'others have taken over the work of this process: this node stops')
    ending.abort(error)
  }
  const open = (waiting: { takeMs?: number; signal?: AbortSignal }) =>
    openPostgres({ address: url, onLost, isAlone, ...(check && { check }), doing, ...waiting })
  let [isWaiting, done] = [false, '']
  const doing = (what: string) => {
    done = what
  }
  /** A process that waits for another one has said why already. */
  const reason = () => (isWaiting ? undefined : `this process waits for PostgreSQL at ${server}: ${done}`)
  for (;;) {
    try {
      const opening = open(isWaiting ? { takeMs: Number.POSITIVE_INFINITY, signal: wait!.signal } : {})
      const database = await toldWait(opening, { logger, reason })
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
