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
  /** Ends the connection and all that is under way on it. */
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
  /** The process whose changes go this way. Without it the connection only reads. */
  writer?: string
}

const VERSION_MIN = 150_000
/** A process that stands still in a transaction keeps no rows from the others for longer. It makes the changes again. */
const WRITER_IDLE_MS = 5_000
const READER_IDLE_MS = 60_000
/** How long a change waits for a row that another transaction has, before all of its group is begun anew. */
const LOCK_MS = 2_000
/** When the server gives up a connection whose network is gone: by default after two hours. */
const GONE_AFTER_S = 15
/** A statement that changes nothing but this connection. What the operator has set to be safer than this stays. */
const greetingOf = (
  isWriter: boolean,
) => `SELECT CAST(current_setting('server_version_num') AS int) AS version, pg_is_in_recovery() AS replica,
    a.pid, CAST(a.backend_start AS text) AS started,
    set_config('idle_in_transaction_session_timeout', '${isWriter ? WRITER_IDLE_MS : READER_IDLE_MS}', false) AS idle,
    ${isWriter ? `set_config('lock_timeout', '${LOCK_MS}', false) AS locks,` : ''}
    set_config('tcp_keepalives_idle', '${GONE_AFTER_S / 3}', false) AS first_probe,
    set_config('tcp_keepalives_interval', '${GONE_AFTER_S / 3}', false) AS next_probe,
    set_config('tcp_keepalives_count', '2', false) AS probes,
    set_config('tcp_user_timeout', '${GONE_AFTER_S * 1000}', false) AS untaken,
    set_config('bytea_output', 'hex', false) AS bytes,
    set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
      ELSE current_setting('synchronous_commit') END, false) AS commits
  FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()`
type Greeting = { version: number; replica: number; pid: number; started: string }

/** With the id of the process: what a connection that writes is called on the server, where others find it. */
export const WRITER_NAME = 'stoa '

/** @throws StoreError `STORE_AWAY`, `STORE_UNREADABLE` */
export async function connect(options: ConnectOptions): Promise<Connection> {
  const { settings } = options
  const { host, port, user, database, password, tls } = settings
  let refusal: StoreError | undefined
  const client = new pg.Client({
    host,
    port,
    user,
    database,
    // Else `pg` looks for one in the environment, and in a file of the home directory.
    password: password ?? (() => ''),
    ssl: tls,
    application_name: options.writer === undefined ? 'stoa' : `${WRITER_NAME}${options.writer}`,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: options.connectMs,
    ...(settings.options !== undefined && { options: settings.options }),
  })
  for (const way of tls === false && !settings.isLocal ? READABLE : []) {
    // Before `pg` answers: it finds the connection closed.
    client.connection.on(way, () => {
      refusal = passwordRefused(settings)
      client.connection.stream.destroy()
    })
  }
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
    throw refusal ?? away(error, settings)
  }
  return await greet(connectionOn(client, options, { seen: () => lost, note: onLost }), options)
}

/** With these `pg` sends the password itself, or what it can be guessed from. With SCRAM it does not. */
const READABLE = ['authenticationCleartextPassword', 'authenticationMD5Password']

function passwordRefused({ name }: PostgresSettings): StoreError {
  const what = `${name} asks for the password over a connection that is not encrypted, in a way that shows it to others`
  const fix =
    'add sslmode=verify-full to DATABASE_URL, or set password_encryption to scram-sha-256 there and the password anew'
  return new StoreError('STORE_UNREADABLE', `${what}: it was not sent; ${fix}`)
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

async function greet(connection: Connection, { settings, writer }: ConnectOptions): Promise<Connection> {
  const text = greetingOf(writer !== undefined)
  try {
    const outcome = await connection.send([{ text, values: [], types: [], wants: 'rows' }])
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
