/** What is said to an operator whose PostgreSQL cannot be used, and how its schema is made. */
import { createServer } from 'node:net'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/store/postgres/connection.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { readSettings } from '../../src/store/postgres/settings.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'

const QUICK = { waitMs: 200, connectMs: 5_000, answerMs: 20_000 }

test('ten processes that start at once on an empty database make its tables once', async () => {
  const { address } = await database({ isEmpty: true })
  const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => openPostgres({ address })))
  const opened = outcomes.filter((outcome) => outcome.status === 'fulfilled')
  onTestFinished(() => Promise.all(opened.map(({ value }) => value.close())).then(() => {}))
  // The others find the tables, and that one of them holds the ledger.
  expect(opened).toHaveLength(1)
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'STORE_IN_USE' })
  }
})

test('each step of the schema runs once, in order, whoever runs it', async () => {
  const { address } = await database({ isEmpty: true })
  const settings = readSettings(address)
  const steps = [
    'CREATE TABLE a (n bigint)',
    'INSERT INTO a VALUES (1); -- Twice.\n INSERT INTO a VALUES (2)',
    'ALTER TABLE a ADD COLUMN m bigint',
  ]
  const connections = await Promise.all(
    Array.from({ length: 10 }, () => connect({ settings, connectMs: 20_000, answerMs: 20_000 })),
  )
  onTestFinished(() => Promise.all(connections.map((connection) => connection.close())).then(() => {}))
  await Promise.all(connections.map((connection) => migrate(connection, { settings, steps })))
  const outcome = await connections[0]!.send([
    { text: 'SELECT n, m FROM a ORDER BY n', values: [], types: [], wants: 'rows' },
  ])
  const rows = [1, 2].map((n) => ({ n, m: null }))
  expect(outcome).toMatchObject({ kind: 'done', answers: [{ rows }] })
})

test('a step that fails leaves nothing of itself', async () => {
  const { address, admin } = await database({ isEmpty: true })
  const settings = readSettings(address)
  const steps = ['CREATE TABLE a (n bigint)', 'CREATE TABLE b (n bigint); SELECT 1 / 0']
  for (let tries = 0; tries < 2; tries += 1) {
    const connection = await connect({ settings, connectMs: 20_000, answerMs: 20_000 })
    await expect(migrate(connection, { settings, steps })).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    connection.destroy()
  }
  const { rows } = await admin.query("SELECT to_regclass('a') AS a, to_regclass('b') AS b, version FROM schema_version")
  expect(rows).toEqual([{ a: 'a', b: null, version: '1' }])
})

test('a database of a later version is refused', async () => {
  const { address, admin } = await database()
  await admin.query('UPDATE schema_version SET version = 1000')
  const refused = { code: 'STORE_NEWER', message: expect.stringContaining('upgrade stoa') }
  await expect(openPostgres({ address })).rejects.toMatchObject(refused)
})

test('a database with tables of something else is refused, and stays as it is', async () => {
  const { address, admin } = await database({ isEmpty: true })
  await admin.query('CREATE TABLE orders (mine int)')
  const refused = { code: 'STORE_UNREADABLE', message: expect.stringContaining('a database of its own') }
  await expect(openPostgres({ address })).rejects.toMatchObject(refused)
  const { rows } = await admin.query("SELECT to_regclass('payments') AS payments")
  expect(rows).toEqual([{ payments: null }])
})

test('a server that is not there, or silent, is named', async () => {
  const silent = createServer((socket) => socket.resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  const address = `postgres://stoa:hunter2@127.0.0.1:${port}/stoa`
  const away = { code: 'STORE_AWAY', message: expect.stringContaining(`127.0.0.1:${port}`) }
  const error = await openPostgres({ address, ...QUICK, connectMs: 200 }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject(away)
  await new Promise((resolve) => silent.close(resolve))
  const gone = await openPostgres({ address, ...QUICK }).catch((thrown: unknown) => thrown)
  expect(gone).toMatchObject({ code: 'STORE_AWAY', message: expect.stringContaining('start it') })
  expect(String(error) + String(gone)).not.toContain('hunter2')
})

test('a wrong password, user or database, and a missing right, are named', async () => {
  const { address, admin, name } = await database({ isEmpty: true })
  const role = `${name}_role`
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'hunter2'`)
  onTestFinished(() => admin.query(`DROP ROLE ${role}`).then(() => {}))
  const as = (user: string, password: string, database = name) => {
    const url = new URL(address)
    url.username = user
    url.password = password
    url.pathname = `/${database}`
    return openPostgres({ address: url.href, ...QUICK }).then(
      () => undefined,
      (thrown: Error) => ({ code: (thrown as Error & { code: string }).code, message: thrown.message }),
    )
  }
  const refused = (part: string) => ({ code: 'STORE_UNREADABLE', message: expect.stringContaining(part) })
  expect(await as(role, 'hunter3')).toEqual(refused('refuses the password'))
  expect(await as(role, '')).toEqual(refused('refuses the password'))
  expect(await as(`${role}_x`, 'hunter3')).toEqual(refused('refuses the password'))
  expect(await as(role, 'hunter2', `${name}_x`)).toEqual(refused('create it'))
  expect(await as(role, 'hunter2')).toEqual(refused('GRANT CREATE'))
  await admin.query(`ALTER ROLE ${role} CONNECTION LIMIT 0`)
  expect(await as(role, 'hunter2')).toMatchObject({
    code: 'STORE_AWAY',
    message: expect.stringContaining('connections'),
  })
})

async function database(options: { isEmpty?: boolean } = {}) {
  const [made, server] = await Promise.all([createTestDatabase(options), testPostgres()])
  const admin = new pg.Client({ ...server, database: made.name })
  await admin.connect()
  onTestFinished(async () => {
    await admin.end()
    await made.drop()
  })
  return { address: made.address(), admin, name: made.name }
}
