/** A PostgreSQL that cannot hold a ledger: a replica, one that turns read-only, and one that is too old. */
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { inspectServerLedger } from '../../src/store/postgres/inspect-postgres.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { one, run } from '../../src/store/query.ts'
import { isLedgerAway } from '../../src/store/store-error.ts'
import { type PostgresServer, type ServerOptions, startPostgres } from '../support/postgres-server.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

async function start(options?: ServerOptions): Promise<PostgresServer> {
  const server = await startPostgres(options)
  onTestFinished(() => server.stop())
  return server
}

async function asAdmin(address: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client(address)
  await client.connect()
  for (const statement of statements) await client.query(statement)
  await client.end()
}

test('a replica is refused by the node and by the doctor, and the primary is asked for', async () => {
  const server = await start({
    settings: { wal_level: 'replica', max_wal_senders: '10', hot_standby: 'on' },
    files: { 'standby.signal': '' },
  })
  const refused = { code: 'STORE_UNREADABLE', message: expect.stringMatching(/is a replica.*name the primary/) }
  const address = server.address('postgres')
  await expect(openPostgres({ address })).rejects.toMatchObject(refused)
  await expect(inspectServerLedger(address)).rejects.toMatchObject(refused)
})

test('a primary that takes no more changes is named, and is used again when it takes them', async () => {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const address = database.address()
  const ledger = await openPostgres({ address, waitMs: 1_000 })
  onTestFinished(() => ledger.close())
  await ledger.commit(run('CREATE TABLE added (name TEXT)'))
  const put = () => ledger.commit(run("INSERT INTO added VALUES ('x')"))
  const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database.name}' AND pid <> pg_backend_pid()`
  await asAdmin(address, `ALTER DATABASE ${database.name} SET default_transaction_read_only = on`, end)
  // The first change may meet the connection that was ended.
  const refusal = (error: unknown) => (isLedgerAway(error) ? undefined : error)
  const error = await until(() => put().then(undefined, refusal))
  expect(error).toMatchObject({ code: 'STORE_UNREADABLE', message: expect.stringContaining('takes no changes') })
  expect(isLedgerAway(error)).toBe(false)
  const back = `ALTER DATABASE ${database.name} SET default_transaction_read_only = off`
  await asAdmin(address, 'SET default_transaction_read_only = off', back, end)
  await until(() =>
    put().then(
      () => true,
      () => false,
    ),
  )
  expect(await ledger.query(one('SELECT count(*) > 0 AS some FROM added'))).toEqual({ some: 1 })
})

test('a server that is too old is refused with both versions', async () => {
  const database = await createTestDatabase({ isEmpty: true })
  onTestFinished(() => database.drop())
  const address = database.address()
  await asAdmin(
    address,
    // No old server runs here: this one says that it is.
    `CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS $$
      SELECT CASE $1 WHEN 'server_version_num' THEN '140012' ELSE pg_catalog.current_setting($1) END $$`,
    `ALTER DATABASE ${database.name} SET search_path = public, pg_catalog`,
  )
  const refused = { code: 'STORE_UNREADABLE', message: expect.stringContaining('is PostgreSQL 14: stoa needs 15') }
  await expect(openPostgres({ address })).rejects.toMatchObject(refused)
  await expect(inspectServerLedger(address)).rejects.toMatchObject(refused)
})
