import pg from 'pg'
import { inject } from 'vitest'
import { migrations } from '../../src/store/postgres/migrations.ts'
import { askOnce } from './made-once.ts'
import { TEMPLATE, type TestPostgres } from './postgres-setup.ts'

let server: Promise<TestPostgres> | undefined
let admin: Promise<pg.Client> | undefined
/** The end of the statement before: a client runs one at a time. */
let before: Promise<unknown> = Promise.resolve()
let count = 0

/** A database of its own for a test. Without `empty` it has the tables of the ledger. */
export type TestDatabase = {
  readonly name: string
  /** For DATABASE_URL; by way of another port, such as a proxy's. */
  address(port?: number): string
  /** Deletes it, whoever uses it. */
  drop(): Promise<void>
}

export async function createTestDatabase({ isEmpty = false } = {}): Promise<TestDatabase> {
  const { host, port, user, password } = await testPostgres()
  count += 1
  const name = `test_${process.pid}_${count}_${Date.now()}`
  await asAdmin(`CREATE DATABASE ${name}${isEmpty ? '' : ` TEMPLATE ${TEMPLATE}`}`)
  return {
    name,
    address: (at = port) => `postgres://${user}:${encodeURIComponent(password)}@${host}:${at}/${name}`,
    drop: () => asAdmin(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  }
}

/** A database that was used before, and is empty again. */
type Used = { database: TestDatabase; client: pg.Client; uses: number }
const USES_MAX = 50
const idle: Used[] = []

/** Like `createTestDatabase`, for tests that leave nothing but rows and tables: it is emptied and lent again. */
export async function borrowTestDatabase(): Promise<Pick<TestDatabase, 'address'> & { giveBack(): Promise<void> }> {
  const used = idle.pop() ?? (await makeUsed())
  used.uses += 1
  return {
    address: used.database.address,
    async giveBack() {
      if (used.uses < USES_MAX) {
        await used.client.query(EMPTY)
        idle.push(used)
        return
      }
      await used.client.end()
      await used.database.drop()
    },
  }
}

async function makeUsed(): Promise<Used> {
  const database = await createTestDatabase()
  const client = await connected(database.name)
  return { database, client, uses: 0 }
}

/** Creating a database takes a second on a busy machine. This takes some ms. */
const EMPTY = `DO $$
  DECLARE each record;
  BEGIN
    -- No reference is looked after.
    SET LOCAL session_replication_role = replica;
    FOR each IN SELECT c.oid::regclass AS name, c.relname FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
      IF each.relname IN ('run_time', 'revisions', 'schema_version') THEN CONTINUE; END IF;
      IF each.relname IN (${ledgerTables()}) THEN
        EXECUTE 'DELETE FROM ' || each.name;
      ELSE
        EXECUTE 'DROP TABLE ' || each.name;
      END IF;
    END LOOP;
    FOR each IN SELECT c.oid::regclass AS name FROM pg_class c WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace LOOP
      EXECUTE 'ALTER SEQUENCE ' || each.name || ' RESTART';
    END LOOP;
    UPDATE run_time SET ms = 0;
    UPDATE revisions SET noted = 0;
  END $$`

function ledgerTables(): string {
  const tables = migrations.join('\n').matchAll(/CREATE TABLE (\w+)/g)
  return [...tables].map(([, name]) => `'${name}'`).join()
}

/** The server that all tests of this run share. */
export function testPostgres(): Promise<TestPostgres> {
  server ??= askOnce(inject('postgres'))
  return server
}

/** Runs a statement for the test itself, as one who may do everything. */
async function asAdmin(sql: string): Promise<void> {
  admin ??= connected('postgres')
  const client = await admin
  const run = before.then(() => client.query(sql))
  before = run.catch(() => {})
  await run
}

async function connected(database: string): Promise<pg.Client> {
  const client = new pg.Client({ ...(await testPostgres()), database })
  // The server is stopped at the end of the run.
  client.on('error', () => {})
  await client.connect()
  ;(client as pg.Client & { unref(): void }).unref()
  return client
}
