import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { openDatabase } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import type { Query } from '../../src/store/query.ts'
import { readServer } from './server-ledgers.ts'
import { createTestDatabase, type TestDatabase } from './test-postgres.ts'

/** Whether the nodes of tests keep their ledgers on a database server. */
export const onServer = process.env.STOA_TEST_ENGINE === 'postgres'

/** Declares a test about the file of SQLite. @param reason why it says nothing about a ledger on PostgreSQL */
export function onSqliteOnly(reason: string): (name: string, body: () => Promise<void>, timeoutMs?: number) => void {
  return (name, body, timeoutMs) => {
    if (onServer) test(name, (context) => context.skip(reason))
    else test(name, body, timeoutMs)
  }
}

const databases = new Map<string, Promise<TestDatabase>>()

// Imported before the hooks of a test file are set, this runs after them: no node uses its database any more.
if (onServer) {
  afterAll(async () => {
    const made = [...databases.values()]
    databases.clear()
    await Promise.all(made.map(async (database) => (await database).drop()))
  })
}

/**
 * Variables that give the node of a data directory a ledger of its own on the engine that STOA_TEST_ENGINE names.
 *
 * `STOA_TEST_ENGINE=postgres`: a database on the server that all tests share, the same one after a restart. Otherwise
 * SQLite, without any variable.
 */
export async function engineEnvironment(dataDir: string | undefined): Promise<{ DATABASE_URL?: string }> {
  if (!onServer || dataDir === undefined) return {}
  const database = databases.get(dataDir) ?? createTestDatabase()
  databases.set(dataDir, database)
  return { DATABASE_URL: (await database).address() }
}

/** Asks the ledger of a data directory, beside the node that may use it. */
export async function askLedger<T>(dataDir: string, query: Query<T>): Promise<T> {
  const { DATABASE_URL: address } = await engineEnvironment(dataDir)
  return asked(address === undefined ? openDatabase({ path: join(dataDir, 'stoa.db') }) : readServer(address), query)
}

/** Asks a ledger in PostgreSQL, beside the processes that use it. */
export function askServer<T>(address: string, query: Query<T>): Promise<T> {
  return asked(readServer(address), query)
}

async function asked<T>(database: Pick<LedgerDatabase, 'query' | 'close'>, query: Query<T>): Promise<T> {
  try {
    return await database.query(query)
  } finally {
    await database.close()
  }
}
