/** The ledger of a node in PostgreSQL, and what is checked when it is opened. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { type Databases, openDatabases } from '../../src/store/databases.ts'
import { writeCopied } from '../../src/store/ledger-home.ts'
import { readMark } from '../../src/store/ledger-mark.ts'
import { openLedger } from '../../src/store/open-ledger.ts'
import { all, one, run } from '../../src/store/query.ts'
import type { WaitForLedger } from '../../src/store/server-ledger.ts'
import { cli } from '../cli/harness.ts'
import { startPostgresProxy } from '../support/postgres-proxy.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'

const owner = { seller: '12D3KooWone', wallet: '0xAA', network: 'eip155:84532' }
const EXCHANGE = `
  INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, created_at, duration_ms) VALUES ('a', 'b', 'c', ?, 1, 2)`

async function testDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-pg-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  return dir
}

async function testUrl(options?: { isEmpty: boolean }): Promise<string> {
  const database = await createTestDatabase(options)
  onTestFinished(() => database.drop())
  return database.address()
}

type How = { wait?: WaitForLedger; isAlone?: boolean }

const open = (dir: string, url: string | undefined, how: How = {}) =>
  openDatabases(dir, { logger: silentLogger, url, ...how })

async function use<T>(dir: string, url: string | undefined, how?: (databases: Databases) => Promise<T>): Promise<void> {
  const databases = await open(dir, url)
  await how?.(databases)
  await databases.close()
}

test('a node keeps its ledger in PostgreSQL and the rest in its data directory', async () => {
  const [dir, url] = [await testDir(), await testUrl()]
  await use(dir, url, async ({ database, localDatabase, server, claim }) => {
    await claim(owner)
    await database.commit(run(EXCHANGE, 'x'))
    expect(localDatabase.one('SELECT count(*) AS n FROM exchanges')).toEqual({ n: 0 })
    expect(server).toMatch(/^127\.0\.0\.1:\d+\/test_/)
    expect((await readMark(dir))?.server).toBe(server)
  })
  const other = await testDir()
  await use(other, url, async ({ claim }) => {
    await expect(claim({ ...owner, seller: '12D3KooWtwo' })).rejects.toMatchObject({ code: 'LEDGER_OF_ANOTHER' })
    expect(await readMark(other)).toBeUndefined()
    await claim(owner)
  })
})

test('a start that is refused leaves a directory to the ledger that it has', async () => {
  const [dir, url] = [await testDir(), await testUrl()]
  await (await openLedger(dir, { logger: silentLogger })).close()
  const before = await readMark(dir)
  await use(await testDir(), url, async ({ database, claim }) => {
    await claim(owner)
    await writeCopied(database, './elsewhere')
  })
  await expect(open(dir, url)).rejects.toMatchObject({ code: 'LEDGER_COPIED' })
  expect(await readMark(dir)).toEqual(before)
  await use(dir, undefined)
})

test('a node that forgets DATABASE_URL, or gets another database, is refused', async () => {
  const [dir, url] = [await testDir(), await testUrl()]
  await use(dir, url, ({ claim }) => claim(owner))
  await expect(open(dir, undefined)).rejects.toMatchObject({
    code: 'LEDGER_LOST',
    message: expect.stringContaining('set DATABASE_URL'),
  })
  await expect(open(dir, await testUrl())).rejects.toMatchObject({
    code: 'LEDGER_LOST',
    message: expect.stringContaining('correct DATABASE_URL'),
  })
  await use(dir, url)
})

test('a ledger in stoa.db is not left behind unsaid: it is copied, used in PostgreSQL, and copied back', async () => {
  const [dir, back, url] = [await testDir(), join(await testDir(), 'back'), await testUrl()]
  const ledger = await openLedger(dir, { logger: silentLogger })
  await ledger.commit(run(EXCHANGE, 'with \0 in it'))
  await ledger.close()
  const copy = `stoa ledger copy --from ${dir} --to env:DATABASE_URL`
  await expect(open(dir, url)).rejects.toMatchObject({ code: 'LEDGER_LOST', message: expect.stringContaining(copy) })

  const environment = { DATABASE_URL: url }
  const there = await cli(copy.split(' ').slice(1), { dataDir: dir, environment })
  expect(there).toMatchObject({ code: 0, stdout: expect.stringContaining('exchanges: 1') })
  expect(there.stdout + there.stderr).not.toContain(new URL(url).password)
  await expect(open(dir, undefined)).rejects.toMatchObject({ code: 'LEDGER_COPIED' })
  await use(dir, url, async ({ database }) => {
    // The numbers go on after those that were copied.
    await database.commit(run(EXCHANGE, 'sold later'))
    expect(await database.query(all('SELECT id, input FROM exchanges ORDER BY id'))).toEqual([
      { id: 1, input: 'with \0 in it' },
      { id: 2, input: 'sold later' },
    ])
  })

  const home = await cli(['ledger', 'copy', '--from', 'env:DATABASE_URL', '--to', back], { dataDir: dir, environment })
  expect(home).toMatchObject({ code: 0, stdout: expect.stringContaining('exchanges: 2') })
  await use(back, undefined, async ({ database }) => {
    expect(await database.query(one('SELECT count(*) AS n FROM exchanges'))).toEqual({ n: 2 })
  })
  await expect(open(dir, url)).rejects.toMatchObject({ code: 'LEDGER_COPIED', message: expect.stringContaining(back) })
})

test('the operator gives a ledger in PostgreSQL to a node with another wallet', async () => {
  const [dir, url] = [await testDir(), await testUrl()]
  const environment = { DATABASE_URL: url, ETHEREUM_PRIVATE_KEY: `0x${'1'.repeat(64)}` }
  await use(dir, url, async ({ claim }) => claim(owner))
  const adopted = await cli(['ledger', 'adopt', '--yes'], { dataDir: dir, environment })
  expect(adopted).toMatchObject({ code: 0, stdout: expect.stringContaining('adopted the ledger') })
  expect((await cli(['ledger', 'adopt'], { dataDir: dir, environment })).stdout).toContain('nothing to do')
  await use(dir, url, async ({ claim }) => {
    await expect(claim(owner)).rejects.toMatchObject({ code: 'LEDGER_OF_ANOTHER' })
  })
})

test('two processes share a ledger, and none copies it or gives it away meanwhile', async () => {
  const [one, two, url] = [await testDir(), await testDir(), await testUrl()]
  const [first, second] = [await open(one, url), await open(two, url)]
  await first.database.commit(run(EXCHANGE, 'x'))
  expect(await second.database.query(all('SELECT input FROM exchanges'))).toEqual([{ input: 'x' }])
  await second.close()
  for (const command of [
    ['ledger', 'adopt', '--yes'],
    ['ledger', 'copy', '--from', 'env:DATABASE_URL', '--to', two],
  ]) {
    const environment = { DATABASE_URL: url, ETHEREUM_PRIVATE_KEY: `0x${'1'.repeat(64)}` }
    const refused = await cli(command, { dataDir: two, environment })
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/another stoa \(.*process \d+\) uses/) })
  }
  await first.close()
})

test('a process is refused while another has the ledger alone, or waits', async () => {
  const [one, two, url] = [await testDir(), await testDir(), await testUrl()]
  const first = await open(one, url, { isAlone: true })
  await expect(open(two, url)).rejects.toMatchObject({
    code: 'STORE_IN_USE',
    message: expect.stringMatching(/process \d+/),
  })
  const told: string[] = []
  const wait = { signal: AbortSignal.timeout(20_000), waiting: (reason: string) => void told.push(reason) }
  const second = open(two, url, { wait })
  await expect.poll(() => told.length).toBe(1)
  await first.close()
  await (await second).close()
  expect(told[0]).toMatch(/another stoa .* uses/)
})

test('stoa doctor says what is wrong with the database, and takes nothing', async () => {
  const [dir, url, empty] = [await testDir(), await testUrl(), await testUrl({ isEmpty: true })]
  const look = async (DATABASE_URL: string) => {
    const { stdout } = await cli(['doctor', '--json'], { dataDir: dir, environment: { DATABASE_URL } })
    expect(stdout).not.toContain(new URL(url).password)
    const { checks } = JSON.parse(stdout) as { checks: { id: string; state: string; text: string }[] }
    const { state, text } = checks.find(({ id }) => id === 'database')!
    return `${state}: ${text}`
  }
  const changed = (fields: { password?: string; pathname?: string; port?: string; search?: string }) =>
    Object.assign(new URL(url), fields).href
  expect(await look(url)).toMatch(/^ok: 127\.0\.0\.1:\d+\/test_.*, PostgreSQL \d+.*, schema \d+, [\d.]+ ms away$/)
  expect(await look(empty)).toMatch(/^ok: .*no ledger yet/)
  expect(await look(changed({ password: 'hunter2hunter2' }))).toMatch(/^fail: .*refuses the password/)
  expect(await look(changed({ pathname: '/nowhere' }))).toMatch(/^fail: .*nowhere.* is not there/)
  expect(await look(changed({ port: '1' }))).toMatch(/^fail: .*does not answer/)
  expect(await look(changed({ search: '?sslmode=require' }))).toMatch(/^fail: .*does not speak TLS/)
  const shared = await open(dir, url)
  expect(await look(url)).toMatch(/^ok/)
  await shared.close()
  const alone = await open(dir, url, { isAlone: true })
  expect(await look(url)).toMatch(/^warn: .*process \d+ has the ledger alone/)
  await alone.close()
  expect(await look(url)).toMatch(/^ok/)
})

test('a start that waits for a slow database says so in its log, with what it does there', async () => {
  const { host, port } = await testPostgres()
  const proxy = await startPostgresProxy({ host, port })
  onTestFinished(() => proxy.close())
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  // It is let in and greeted. Then nothing more comes.
  let answers = 0
  proxy.onMessage(({ from, type }) => {
    if (from === 'server' && type === 'Z') answers += 1
    return answers > 2 ? 'hold' : 'pass'
  })
  const told = Promise.withResolvers<string>()
  const logger = { ...silentLogger, warn: (_: unknown, text: string) => told.resolve(text) }
  const opening = openDatabases(await testDir(), { logger, url: database.address(proxy.port) })
  expect(await told.promise).toMatch(/^this process waits for PostgreSQL at 127\.0\.0\.1:\d+\/test_\w+: it looks what/)
  proxy.onMessage(() => 'pass')
  await proxy.release()
  await (await opening).close()
})
