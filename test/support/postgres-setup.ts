import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { connect } from '../../src/store/postgres/connection.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { readSettings } from '../../src/store/postgres/settings.ts'
import { offerOnce } from './made-once.ts'
import { type PostgresServer, startPostgres } from './postgres-server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** A Unix socket: whoever connects is told where the PostgreSQL of this run of the tests is. */
    postgres: string
  }
}

/** What a test is told of the server. */
export type TestPostgres = { host: string; port: number; user: string; password: string }

/** A database with the tables of the ledger, of which each test gets a copy. */
export const TEMPLATE = 'stoa_template'

/** Starts one PostgreSQL for all tests of a run, when the first test asks for it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { path, end } = await offerOnce<TestPostgres>(async () => {
    const server = await startMigrated()
    const { host, port, user, password } = server
    return { told: { host, port, user, password }, undo: () => server.stop() }
  })
  project.provide('postgres', path)
  return end
}

async function startMigrated(): Promise<PostgresServer> {
  const server = await startPostgres()
  try {
    const { host, port, user, password } = server
    const admin = new pg.Client({ host, port, user, password, database: 'postgres' })
    await admin.connect()
    await admin.query(`CREATE DATABASE ${TEMPLATE}`)
    await admin.end()
    const settings = readSettings(server.address(TEMPLATE))
    const connection = await connect({ settings, connectMs: 20_000, answerMs: 20_000 })
    await migrate(connection, { settings })
    await connection.close()
    return server
  } catch (error) {
    await server.stop()
    throw error
  }
}
