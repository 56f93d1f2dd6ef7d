import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { connect as connectTo } from '../../src/store/postgres/connection.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { readSettings } from '../../src/store/postgres/settings.ts'
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
  const dir = mkdtempSync(join(tmpdir(), 'stoa-tests-'))
  const path = join(dir, 'postgres')
  let starting: Promise<PostgresServer> | undefined
  const asked = createServer((socket) => {
    socket.on('error', () => {})
    starting ??= startMigrated()
    starting.then(
      ({ host, port, user, password }) => socket.end(JSON.stringify({ host, port, user, password })),
      (error) => socket.end(JSON.stringify({ error: String(error) })),
    )
  })
  await new Promise<void>((resolve) => asked.listen(path, resolve))
  asked.unref()
  project.provide('postgres', path)
  return async () => {
    asked.close()
    await starting?.then(
      (server) => server.stop(),
      () => {},
    )
    rmSync(dir, { recursive: true, force: true })
  }
}

/** Asks the process that runs the tests. @param path the socket that it provides */
export async function askForPostgres(path: string): Promise<TestPostgres> {
  let text = ''
  const socket = connect(path)
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  const answer = JSON.parse(text) as TestPostgres & { error?: string }
  if (answer.error !== undefined) throw new Error(`no PostgreSQL for this test: ${answer.error}`)
  return answer
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
    const connection = await connectTo({ settings, connectMs: 20_000, answerMs: 20_000 })
    await migrate(connection, { settings })
    await connection.close()
    return server
  } catch (error) {
    await server.stop()
    throw error
  }
}
