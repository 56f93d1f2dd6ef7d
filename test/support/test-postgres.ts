import pg from 'pg'
import { inject } from 'vitest'
import { askForPostgres, TEMPLATE, type TestPostgres } from './postgres-setup.ts'

let server: Promise<TestPostgres> | undefined
let admin: Promise<pg.Client> | undefined
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
  const client = await adminOf()
  await client.query(`CREATE DATABASE ${name}${isEmpty ? '' : ` TEMPLATE ${TEMPLATE}`}`)
  return {
    name,
    address: (at = port) => `postgres://${user}:${encodeURIComponent(password)}@${host}:${at}/${name}`,
    drop: async () => void (await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
  }
}

/** The server that all tests of this run share. */
export function testPostgres(): Promise<TestPostgres> {
  server ??= askForPostgres(inject('postgres'))
  return server
}

/** A connection for the test itself, as one who may do everything. */
async function adminOf(): Promise<pg.Client> {
  admin ??= testPostgres().then(async (settings) => {
    const client = new pg.Client({ ...settings, database: 'postgres' })
    // The server is stopped at the end of the run.
    client.on('error', () => {})
    await client.connect()
    ;(client as pg.Client & { unref(): void }).unref()
    return client
  })
  return admin
}
