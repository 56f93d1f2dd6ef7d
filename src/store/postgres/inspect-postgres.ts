import { type Connection, connect } from './connection.ts'
import { storeError } from './errors.ts'
import { type FoundLedger, lookAt } from './look.ts'
import { migrations } from './migrations.ts'
import { type PostgresSettings, readSettings } from './settings.ts'

/** What is seen of a database without changing it. */
export type PostgresFacts = {
  version: string
  /** Milliseconds of a round trip. */
  latencyMs: number
  isEncrypted: boolean
  /** The server is on this machine. */
  isLocal: boolean
  /** Of the ledger, and what this version of stoa has. Undefined: there is no ledger yet. */
  schema: { found: number | undefined; known: number }
  /** The process that has the ledger alone, and for how long at least. */
  holder: { place: string; ms: number } | undefined
  /** Whether this user may create tables. */
  mayCreate: boolean
  isReadOnly: boolean
}

const CONNECT_MS = 3_000
const LOOKS = 3
const FACTS = `
  SELECT current_setting('server_version') AS version, current_setting('transaction_read_only') = 'on' AS "isReadOnly",
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS "isEncrypted",
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS "mayCreate",
    to_regclass('schema_version') IS NOT NULL AS "hasLedger"`
const SCHEMA = 'SELECT version FROM schema_version'
const HOLDER = `
  SELECT place, lease_until - CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) AS ms FROM processes
  WHERE ended_at IS NULL AND shared = 0 AND lease_until > CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)
  ORDER BY lease_until DESC LIMIT 1`

type Row = Record<string, unknown>

/** Looks whose ledger is in a database, as a start does. @throws StoreError */
export async function inspectServerLedger(address: string): Promise<FoundLedger> {
  const settings = readSettings(address)
  const connection = await connect({ settings, connectMs: CONNECT_MS, answerMs: CONNECT_MS })
  try {
    return await lookAt(connection, settings)
  } finally {
    await connection.close()
  }
}

/** @throws StoreError that says what is wrong: unreachable, password, database, version, replica, TLS */
export async function inspectPostgres(address: string): Promise<PostgresFacts> {
  const settings = readSettings(address)
  const connection = await connect({ settings, connectMs: CONNECT_MS, answerMs: CONNECT_MS })
  try {
    const ask = (text: string) => firstRow(connection, settings, text)
    const latencyMs = await latencyOf(() => ask('SELECT 1'))
    const { version, isReadOnly, isEncrypted, mayCreate, hasLedger } = (await ask(FACTS))!
    const found = hasLedger === 1 ? Number((await ask(SCHEMA))?.version ?? 0) : undefined
    const holder = found === migrations.length ? await ask(HOLDER) : undefined
    return {
      version: String(version).split(' ')[0]!,
      latencyMs,
      isEncrypted: isEncrypted === 1,
      isLocal: settings.isLocal,
      schema: { found, known: migrations.length },
      holder: holder === undefined ? undefined : { place: String(holder.place), ms: Number(holder.ms) },
      mayCreate: mayCreate === 1,
      isReadOnly: isReadOnly === 1,
    }
  } finally {
    await connection.close()
  }
}

/** The shortest of some round trips. */
async function latencyOf(ask: () => Promise<unknown>): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let look = 0; look < LOOKS; look++) {
    const since = performance.now()
    await ask()
    least = Math.min(least, performance.now() - since)
  }
  return least
}

async function firstRow(connection: Connection, settings: PostgresSettings, text: string): Promise<Row | undefined> {
  const outcome = await connection.send([{ text, values: [], types: [], wants: 'rows' }])
  if (outcome.kind === 'done') return outcome.answers[0]!.rows[0] as Row | undefined
  throw storeError(outcome.error, settings)
}
