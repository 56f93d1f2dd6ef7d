/** What is said to an operator whose PostgreSQL cannot be used, and how its schema is made. */
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/store/postgres/connection.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { readSettings } from '../../src/store/postgres/settings.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'

const QUICK = { waitMs: 1_000, connectMs: 5_000, answerMs: 20_000 }

test('ten processes that start at once on an empty database make its tables once', async () => {
  const { address } = await database({ isEmpty: true })
  const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => openPostgres({ address })))
  const opened = outcomes.filter((outcome) => outcome.status === 'fulfilled')
  onTestFinished(() => Promise.all(opened.map(({ value }) => value.close())).then(() => {}))
  expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([])
  expect(new Set(opened.map(({ value }) => value.process)).size).toBe(10)
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
    await expect(migrate(connection, { settings, steps })).rejects.toMatchObject({ code: 'STORE_REFUSED' })
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

test('a user whom pg_hba.conf does not let in learns whether TLS is missing, or the user', async () => {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  const admin = new pg.Client(server.address('postgres'))
  await admin.connect()
  await admin.query("CREATE ROLE outsider LOGIN PASSWORD 'outsider'; CREATE ROLE asleep PASSWORD 'asleep'")
  const { hba_file: file } = (await admin.query('SHOW hba_file')).rows[0] as { hba_file: string }
  await writeFile(file, `hostssl all outsider all scram-sha-256\nhost all ${server.user},asleep,nobody all trust\n`)
  await admin.query('SELECT pg_reload_conf()')
  await admin.end()
  const said = async (user: string) => {
    const address = `postgres://${user}:hunter2@${server.host}:${server.port}/postgres`
    return openPostgres({ address, ...QUICK }).then(
      async (opened) => void (await opened.close()),
      (error: Error) => error.message,
    )
  }
  await expect.poll(() => said('outsider')).toMatch(/without TLS: add sslmode=verify-full to DATABASE_URL if .*hostssl/)
  expect(await said('nobody')).toMatch(/does not know this user: CREATE ROLE/)
  expect(await said('asleep')).toMatch(/does not let this user log in: ALTER ROLE/)
})

const CLEAR = [0x52, 0, 0, 0, 8, 0, 0, 0, 3]
const SCRAM = [0x52, 0, 0, 0, 23, 0, 0, 0, 10, ...Buffer.from('SCRAM-SHA-256\0\0')]
const ASKS = {
  'in clear text': [CLEAR],
  'as MD5': [[0x52, 0, 0, 0, 12, 0, 0, 0, 5, 1, 2, 3, 4]],
  'in clear text after it began with SCRAM': [SCRAM, CLEAR],
}

test.each(Object.entries(ASKS))(
  'a server that asks for the password %s gets it on this machine alone (T21)',
  async (_, asks) => {
    let answers = 0
    const asking = createServer((socket) => {
      let asked = 0
      socket.on('error', () => {})
      socket.on('data', () => {
        answers += asked > 0 ? 1 : 0
        const ask = asks[asked]
        asked += 1
        if (ask === undefined) socket.destroy()
        else socket.write(Buffer.from(ask))
      })
    })
    await new Promise<void>((resolve) => asking.listen(0, '0.0.0.0', resolve))
    onTestFinished(() => void asking.close())
    const { port } = asking.address() as { port: number }
    // Leads to this machine too, but its name does not say so.
    const error = await openPostgres({ address: `postgres://stoa:hunter2@0.0.0.0:${port}/stoa` }).catch(
      (thrown) => thrown,
    )
    expect(error).toMatchObject({
      code: 'STORE_UNREADABLE',
      message: expect.stringMatching(/not sent.*verify-full.*scram/),
    })
    expect(error.message).not.toContain('hunter2')
    expect(answers).toBe(asks.length - 1)
    answers = 0
    const local = openPostgres({ address: `postgres://stoa:hunter2@127.0.0.1:${port}/stoa` })
    await expect(local).rejects.toMatchObject({ code: 'STORE_AWAY' })
    expect(answers).toBe(asks.length)
  },
)

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
  // Somebody else has made the tables: the right to make some is of no use.
  await openPostgres({ address, ...QUICK }).then((opened) => opened.close())
  await admin.query(`GRANT CREATE, USAGE ON SCHEMA public TO ${role}`)
  expect(await as(role, 'hunter2')).toEqual(refused('belong to another role: name that role in DATABASE_URL'))
  await admin.query(`REVOKE ALL ON SCHEMA public FROM ${role}`)
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
