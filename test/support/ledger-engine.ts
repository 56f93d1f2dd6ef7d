import { join } from 'node:path'
import { openDatabase } from '../../src/store/database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import type { Query } from '../../src/store/query.ts'
import { createTestDatabase } from './test-postgres.ts'

/** Whether the nodes of tests keep their ledgers on a database server. */
export const onServer = process.env.STOA_TEST_ENGINE === 'postgres'

const urls = new Map<string, Promise<string>>()

/**
 * Variables that give the node of a data directory a ledger of its own on the engine that STOA_TEST_ENGINE names.
 *
 * `STOA_TEST_ENGINE=postgres`: a database on the server that all tests share, the same one after a restart. Otherwise
 * SQLite, without any variable.
 */
export async function engineEnvironment(dataDir: string | undefined): Promise<{ DATABASE_URL?: string }> {
  if (!onServer || dataDir === undefined) return {}
  let url = urls.get(dataDir)
  if (url === undefined) {
    url = createTestDatabase().then((database) => database.address())
    urls.set(dataDir, url)
  }
  return { DATABASE_URL: await url }
}

/** Asks the ledger of a data directory, beside the node that uses it. */
export async function askLedger<T>(dataDir: string, query: Query<T>): Promise<T> {
  const { DATABASE_URL: address } = await engineEnvironment(dataDir)
  const database =
    address === undefined
      ? openDatabase({ path: join(dataDir, 'stoa.db') })
      : await openPostgres({ address, isShared: true })
  try {
    return await database.query(query)
  } finally {
    await database.close()
  }
}
