import { type EntryRow, FACTS, factsOf, type LedgerFacts } from '../ledger-facts.ts'
import { StoreError } from '../store-error.ts'
import type { Connection } from './connection.ts'
import { storeError } from './errors.ts'
import type { PostgresSettings } from './settings.ts'

/** A database before anything is changed in it. */
export type FoundLedger = {
  /** The version of its tables. Undefined: there is no ledger. */
  schema: number | undefined
  facts: LedgerFacts | undefined
}

const NAMES_SHOWN = 3
/** Without those that belong to an extension. Both columns of the version make that table ours. */
const TABLES = `
  SELECT c.relname AS name, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('version', 'one')
    AND NOT a.attisdropped) AS "ours"
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p', 'f')
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  ORDER BY c.relname`
const VERSION = 'SELECT version FROM schema_version'
const ENCODING = "SELECT current_setting('server_encoding') AS encoding"
const VERSION_TABLE = 'schema_version'

/**
 * Looks whose ledger is in a database, without changing anything.
 *
 * @throws StoreError `STORE_UNREADABLE` if its encoding lacks characters, or if it holds tables of another program and no
 * ledger, `STORE_AWAY`
 */
export async function lookAt(connection: Connection, settings: PostgresSettings): Promise<FoundLedger> {
  const rows = (text: string) => rowsOf(connection, settings, text)
  const encoding = String((await rows(ENCODING))[0]?.encoding)
  if (encoding !== 'UTF8') throw wrongEncoding(encoding, settings)
  // The tables before the version: another process may be making them, one step after the other.
  const tables = (await rows(TABLES)) as { name: string; ours: number }[]
  const isOurs = tables.some(({ name, ours }) => name === VERSION_TABLE && Number(ours) === 2)
  const schema = isOurs ? Number((await rows(VERSION))[0]?.version ?? 0) : 0
  if (schema > 0) return { schema, facts: factsOf((await rows(FACTS)) as EntryRow[]) }
  const others = tables.map(({ name }) => name).filter((name) => !isOurs || name !== VERSION_TABLE)
  if (others.length > 0) throw foreign(others, settings)
  return { schema: undefined, facts: undefined }
}

function foreign(tables: readonly string[], { name }: PostgresSettings): StoreError {
  const more = tables.length - NAMES_SHOWN
  const shown = tables.slice(0, NAMES_SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '')
  const what = `${name} holds tables of another program (${shown}) and no ledger of stoa`
  return new StoreError(
    'STORE_UNREADABLE',
    `${what}: give stoa a database of its own (CREATE DATABASE …) and name that one. Nothing was changed`,
  )
}

/** A result with a character that the database lacks could never be stored, and would be shown for nothing. */
function wrongEncoding(encoding: string, { name }: PostgresSettings): StoreError {
  const fix = "make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and name that one in DATABASE_URL"
  return new StoreError('STORE_UNREADABLE', `${name} has the encoding ${encoding}, and stoa needs UTF8: ${fix}`)
}

async function rowsOf(connection: Connection, settings: PostgresSettings, text: string) {
  const outcome = await connection.send([{ text, values: [], types: [], wants: 'rows' }])
  if (outcome.kind === 'done') return outcome.answers[0]!.rows as Record<string, unknown>[]
  throw storeError(outcome.error, settings)
}
