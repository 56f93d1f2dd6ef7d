import { periodic } from '../../lib/periodic.ts'
import { halfRandom } from '../../lib/retry.ts'
import { pause } from '../../lib/wait.ts'
import { EXCHANGE_ROW_BYTES } from '../exchanges.ts'
import type { LedgerDatabase } from '../ledger-database.ts'
import { all, beside, type Query } from '../query.ts'
import { type Noted, noteChanges } from '../shared-changes.ts'
import { StoreError } from '../store-error.ts'
import { type Connection, connect, type Traffic } from './connection.ts'
import { isConflict } from './errors.ts'
import { END_CONNECTIONS, Holder, LEASE_MS, NOW } from './holder.ts'
import { type FoundLedger, lookAt } from './look.ts'
import { migrate } from './migrate.ts'
import { Readers } from './readers.ts'
import { ROLLBACK } from './sent.ts'
import { readSettings } from './settings.ts'
import { Writer } from './writer.ts'
import { Line } from './writing-line.ts'

type PostgresOptions = {
  /** `postgres://user:password@host:port/database` */
  address: string
  /** Where this process runs, for people. */
  place?: string
  /** How long to wait for the ledger while another process has it alone, or while others have it and this one wants it alone. */
  takeMs?: number
  signal?: AbortSignal
  /** No other process may use the ledger at the same time. Processes that are not alone share it. */
  isAlone?: boolean
  /** Called before anything is changed in the database. What it throws is thrown. */
  check?(found: FoundLedger): Promise<void>
  /** Called with what is done next, for people. */
  doing?(what: string): void
  /** Called once, when others have ended this process. */
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
const CONFLICTS_MAX = 10
const CONFLICT_MS = 100
/** Others may wait for what a process without a lease has locked. */
const END_EVERY_MS = 1_000
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
 * Opens the ledger on PostgreSQL beside the processes that share it, and brings its schema up to date.
 *
 * @throws StoreError `STORE_AWAY`, `STORE_UNREADABLE` with what to do, `STORE_NEWER`, or `STORE_IN_USE` if another process
 * has it alone for longer than `takeMs`
 * @internal
 */
export async function openPostgres(options: PostgresOptions): Promise<LedgerDatabase> {
  const { connectMs = 5_000, answerMs = 20_000, waitMs = 10_000, leaseMs = LEASE_MS, onLost = () => {} } = options
  const settings = readSettings(options.address)
  const connecting = { settings, connectMs, answerMs, ...(options.traffic && { traffic: options.traffic }) }
  const reach = () => connect(connecting)
  const { place, isAlone = false, doing = () => {} } = options
  const holder = new Holder({ settings, leaseMs, isAlone, ...(place !== undefined && { place }) })
  const reachToWrite = () => connect({ ...connecting, writer: holder.id })
  doing('it connects')
  const connection = await reachToWrite()
  try {
    doing('it looks what is there')
    const found = await lookAt(connection, settings)
    await options.check?.(found)
    doing('it brings the tables up to date, for which it may wait for other processes')
    await migrate(connection, { settings })
    doing('it joins the processes of the ledger')
    await take(holder, connection, options)
  } catch (error) {
    connection.destroy()
    throw error
  }
  const line = new Line(connection, { settings, holder, connect: reachToWrite, waitMs, onLost })
  const writer = new Writer({ settings, line, renewMs: leaseMs / 3 })
  const readers = new Readers({ settings, connect: reach, waitMs })
  // Beside the line of the changes, which may itself wait for what they have locked. What fails is done at the next turn.
  const ending = periodic(
    { name: 'processes without a lease', firstMs: END_EVERY_MS, everyMs: END_EVERY_MS },
    { work: async () => void (await readers.query(all(END_CONNECTIONS, holder.id, leaseMs))), onError: () => {} },
  )
  await ending.start()
  const note = (...noted: readonly Noted[]) => noteChanges(holder.id, isAlone ? [] : noted)
  const withNotes = <T>(change: Query<T>, noted: readonly Noted[]) =>
    isAlone || noted.length === 0 ? change : beside(change, note(...noted))
  return {
    process: holder.id,
    time: NOW,
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
    isHeld: () => line.lost() === undefined && holder.isHeld(),
    async close() {
      const ended = ending.stop()
      await writer.close()
      await readers.close()
      await ended
    },
  }
}

async function take(holder: Holder, connection: Connection, { takeMs = 0, signal }: PostgresOptions): Promise<void> {
  const deadline = performance.now() + takeMs
  for (let conflicts = 1; ; ) {
    try {
      return await holder.take(connection)
    } catch (error) {
      if (error instanceof StoreError && isConflict(error.cause) && conflicts < CONFLICTS_MAX) {
        conflicts += 1
        await connection.send([ROLLBACK])
        await pause(halfRandom(CONFLICT_MS), signal)
        continue
      }
      const isHeld = error instanceof StoreError && error.code === 'STORE_IN_USE'
      if (!isHeld || performance.now() >= deadline || signal?.aborted === true) throw error
    }
    await pause(TAKE_AGAIN_MS, signal)
  }
}
