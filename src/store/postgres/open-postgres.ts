import { pause } from '../../lib/wait.ts'
import { EXCHANGE_ROW_BYTES } from '../exchanges.ts'
import type { LedgerDatabase } from '../ledger-database.ts'
import { all, beside, type Query } from '../query.ts'
import { type Noted, noteChanges } from '../shared-changes.ts'
import { StoreError } from '../store-error.ts'
import { type Connection, connect, type Traffic } from './connection.ts'
import { Holder, NOW } from './holder.ts'
import { migrate } from './migrate.ts'
import { Readers } from './readers.ts'
import { readSettings } from './settings.ts'
import { Writer } from './writer.ts'
import { Line } from './writing-line.ts'

type PostgresOptions = {
  /** `postgres://user:password@host:port/database` */
  address: string
  /** Where this process runs, for people. */
  place?: string
  /** How long to wait for the ledger while another process holds it. */
  takeMs?: number
  signal?: AbortSignal
  /** Other processes may hold the ledger at the same time. Not for nodes, until all that they do is made for it. */
  isShared?: boolean
  /** Called once, when another process has taken the ledger. */
  onLost?(error: StoreError): void
  /** How long what is asked for waits while the database is away. */
  waitMs?: number
  /** How long the database may be silent. */
  answerMs?: number
  connectMs?: number
  leaseMs?: number
  traffic?: Traffic
}

const TAKE_AGAIN_MS = 1_000
/** What stands in files of its own counts too: long values, and indices. */
const FILE_BYTES = `
  SELECT coalesce(sum(pg_total_relation_size(oid)), 0) AS bytes,
    coalesce(sum(pg_total_relation_size(oid)) FILTER (WHERE relname <> 'exchanges'), 0) AS others
  FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r'`
/** A file does not shrink when rows are deleted. So what the only table holds that is trimmed is counted. */
const EXCHANGE_BYTES = `
  SELECT coalesce(sum(pg_column_size(input) + coalesce(pg_column_size(output), 0)), 0) + ${EXCHANGE_ROW_BYTES} * count(*) AS bytes
  FROM exchanges`

/**
 * Opens the ledger on PostgreSQL for this process alone, and brings its schema up to date.
 *
 * @throws StoreError `STORE_AWAY`, `STORE_UNREADABLE` with what to do, `STORE_NEWER`, or `STORE_IN_USE` if another process
 * holds it for longer than `takeMs`
 * @internal
 */
export async function openPostgres(options: PostgresOptions): Promise<LedgerDatabase> {
  const { connectMs = 5_000, answerMs = 20_000, waitMs = 10_000, leaseMs = 20_000, onLost = () => {} } = options
  const settings = readSettings(options.address)
  const connecting = { settings, connectMs, answerMs, ...(options.traffic && { traffic: options.traffic }) }
  const reach = () => connect(connecting)
  const { place, isShared = false } = options
  const holder = new Holder({ settings, leaseMs, isShared, ...(place !== undefined && { place }) })
  const connection = await reach()
  try {
    await migrate(connection, { settings })
    await take(holder, connection, options)
  } catch (error) {
    connection.destroy()
    throw error
  }
  const line = new Line(connection, { settings, holder, connect: reach, waitMs, onLost })
  const writer = new Writer({ settings, line, renewMs: leaseMs / 3 })
  const readers = new Readers({ settings, connect: reach, waitMs })
  const note = (...noted: readonly Noted[]) => noteChanges(holder.id, isShared ? noted : [])
  const withNotes = <T>(change: Query<T>, noted: readonly Noted[]) =>
    isShared && noted.length > 0 ? beside(change, note(...noted)) : change
  return {
    process: holder.id,
    time: isShared ? NOW : undefined,
    query: (query) => readers.query(query),
    commit: (change, ...noted) => writer.commit(withNotes(change, noted)),
    commitLater: (change, ...noted) => writer.commitLater(withNotes(change, noted)),
    note,
    async usedBytes(enough = 0) {
      const [files] = await readers.query(all<{ bytes: number; others: number }>(FILE_BYTES))
      if (files!.bytes <= enough) return files!.bytes
      const [held] = await readers.query(all<{ bytes: number }>(EXCHANGE_BYTES))
      return files!.others + held!.bytes
    },
    damage: () => line.lost(),
    async close() {
      await writer.close()
      await readers.close()
    },
  }
}

async function take(holder: Holder, connection: Connection, { takeMs = 0, signal }: PostgresOptions): Promise<void> {
  const deadline = performance.now() + takeMs
  for (;;) {
    try {
      return await holder.take(connection)
    } catch (error) {
      const isHeld = error instanceof StoreError && error.code === 'STORE_IN_USE'
      if (!isHeld || performance.now() >= deadline || signal?.aborted === true) throw error
    }
    await pause(TAKE_AGAIN_MS, signal)
  }
}
