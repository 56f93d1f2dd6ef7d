import pg from 'pg'
import { StoreError } from '../store-error.ts'
import { Batch, type Outcome } from './batch.ts'
import { away, isStalePlan } from './errors.ts'
import { PreparedStatements } from './prepared.ts'
import type { Sent } from './sent.ts'
import type { PostgresSettings } from './settings.ts'

/** A connection to the database. One batch at a time. */
export type Connection = {
  /**
   * Sends statements in one round trip. They are one transaction, if they do not begin one themselves. Never rejects.
   *
   * @param flushBefore see `Batch`
   */
  send(statements: readonly Sent[], flushBefore?: number): Promise<Outcome>
  isLost(): boolean
  /** The process of the server that works for this connection. A number is given again, so it goes with its start. */
  readonly backend: { pid: number; started: string }
  /** Ends the connection, and whatever is under way on it. */
  destroy(): void
  close(): Promise<void>
}

/** What is counted of connections: see bench/ledger.ts. */
export type Traffic = { statements: number; roundTrips: number }

type ConnectOptions = {
  settings: PostgresSettings
  /** How long the database may take to let us in. */
  connectMs: number
  /** How long it may be silent before the connection counts as lost. */
  answerMs: number
  traffic?: Traffic
}

const VERSION_MIN = 150_000
const IDLE_IN_TRANSACTION_MS = 60_000
/** A statement that changes nothing but this connection. What the operator has set to be safer than this stays. */
const GREETING = `SELECT CAST(current_setting('server_version_num') AS int) AS version, pg_is_in_recovery() AS replica,
    a.pid, CAST(a.backend_start AS text) AS started,
    set_config('idle_in_transaction_session_timeout', '${IDLE_IN_TRANSACTION_MS}', false) AS idle,
    set_config('bytea_output', 'hex', false) AS bytes,
    set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
      ELSE current_setting('synchronous_commit') END, false) AS commits
  FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()`
type Greeting = { version: number; replica: number; pid: number; started: string }

/** @throws StoreError `STORE_AWAY`, `STORE_UNREADABLE` */
export async function connect(options: ConnectOptions): Promise<Connection> {
  const { settings } = options
  const { host, port, user, database, password, tls } = settings
  const client = new pg.Client({
    host,
    port,
    user,
    database,
    // Else `pg` looks for one in the environment, and in a file of the home directory.
    password: password ?? (() => ''),
    ssl: tls,
    application_name: 'stoa',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: options.connectMs,
    ...(settings.options !== undefined && { options: settings.options }),
  })
  let lost: Error | undefined
  const onLost = (error: Error) => {
    lost ??= error
  }
  client.on('error', onLost)
  client.on('end', () => onLost(new Error('the connection has ended')))
  try {
    await client.connect()
  } catch (error) {
    client.connection.stream.destroy()
    throw away(error, settings)
  }
  return await greet(connectionOn(client, options, { seen: () => lost, note: onLost }), settings)
}

type Loss = { seen(): Error | undefined; note(error: Error): void }

function connectionOn(client: pg.Client, { answerMs, traffic }: ConnectOptions, loss: Loss): Connection {
  let generation = 0
  let prepared = new PreparedStatements()
  const destroy = () => void client.connection.stream.destroy()
  return {
    async send(statements, flushBefore) {
      const batch = new Batch(statements, prepared, flushBefore)
      if (traffic !== undefined) {
        traffic.statements += statements.length
        traffic.roundTrips += 1
      }
      // Without this a network that swallows everything would be waited for as long as the system likes: a quarter of an hour.
      const silence = setTimeout(destroy, answerMs)
      client.query(batch)
      const outcome = await batch.ended
      clearTimeout(silence)
      if (outcome.kind === 'lost') {
        // The server may have said goodbye and not closed yet.
        loss.note(outcome.error)
        destroy()
      }
      if (outcome.kind === 'refused' && isStalePlan(outcome.error)) {
        generation += 1
        prepared = new PreparedStatements(generation)
      }
      return outcome
    },
    isLost: () => loss.seen() !== undefined,
    backend: { pid: 0, started: '' },
    destroy,
    async close() {
      if (loss.seen() !== undefined) return destroy()
      const forced = setTimeout(destroy, answerMs)
      await client.end().catch(() => {})
      clearTimeout(forced)
    },
  }
}

async function greet(connection: Connection, settings: PostgresSettings): Promise<Connection> {
  try {
    const outcome = await connection.send([{ text: GREETING, values: [], types: [], wants: 'rows' }])
    if (outcome.kind !== 'done') throw away(outcome.error, settings)
    const { version, replica, pid, started } = outcome.answers[0]!.rows[0] as Greeting
    if (version < VERSION_MIN) {
      const [is, least] = [version, VERSION_MIN].map((number) => Math.floor(number / 10_000))
      throw new StoreError('STORE_UNREADABLE', `${settings.name} is PostgreSQL ${is}: stoa needs ${least} or newer`)
    }
    if (replica === 1) {
      const fix = 'name the primary in DATABASE_URL'
      throw new StoreError('STORE_UNREADABLE', `${settings.name} is a replica and takes no changes: ${fix}`)
    }
    return { ...connection, backend: { pid, started } }
  } catch (error) {
    connection.destroy()
    throw error
  }
}
