/** Starts that are refused for their ledger: they change nothing, and `stoa doctor` says the same before. */
import { randomUUID } from 'node:crypto'
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { createNode } from '../../src/node/create-node.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import { walletAddress } from '../../src/payments/wallet.ts'
import { loadOrCreateWalletKey } from '../../src/payments/wallet-key.ts'
import { writeCopied } from '../../src/store/ledger-home.ts'
import { ledgerId } from '../../src/store/ledger-id.ts'
import { writeMark } from '../../src/store/ledger-mark.ts'
import { claimLedger } from '../../src/store/ledger-owner.ts'
import { openLedger } from '../../src/store/open-ledger.ts'
import { migrations } from '../../src/store/postgres/migrations.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { cli } from '../cli/harness.ts'
import { createTestDatabase } from '../support/test-postgres.ts'

const network = 'eip155:84532'

async function testDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-refused-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  return dir
}

async function testServer(options?: { isEmpty: boolean }) {
  const database = await createTestDatabase(options)
  onTestFinished(() => database.drop())
  const admin = new pg.Client(database.address())
  await admin.connect()
  onTestFinished(() => admin.end())
  return { url: database.address(), admin }
}

/** The keys of a seller, and a data directory that has some of them. */
async function seller(has: ('identity' | 'wallet')[] = ['identity', 'wallet']) {
  const [all, dir] = [await testDir(), await testDir()]
  const { peerId } = await loadOrCreateIdentity(join(all, 'identity.key'))
  const { key } = await loadOrCreateWalletKey(all, { walletKey: undefined })
  for (const name of has) await cp(join(all, `${name}.key`), join(dir, `${name}.key`))
  return { dir, owner: { seller: peerId, wallet: walletAddress(key), network } }
}

async function examined(dataDir: string, DATABASE_URL?: string): Promise<string> {
  const before = await readdir(dataDir)
  const doctor = await cli(['doctor', '--json', '--port', '0', '--api-port', '0'], options(dataDir, DATABASE_URL))
  expect(await readdir(dataDir)).toEqual(before)
  const { checks } = JSON.parse(doctor.stdout) as { checks: { id: string; state: string; text: string }[] }
  const ledger = checks.filter(({ id }) => id === 'ledger' || id === 'database')
  return ledger.map(({ state, text }) => `${state}: ${text}`).join('\n')
}

/** What a start that is refused and the doctor say, and what the start has left in the directory. */
async function tried(dataDir: string, DATABASE_URL?: string) {
  const doctor = await examined(dataDir, DATABASE_URL)
  const start = await cli(['start', '--port', '0', '--api-port', '0', '--no-mdns', '--no-public-dht'], {
    ...options(dataDir, DATABASE_URL),
    parts: { createNode },
    signal: AbortSignal.timeout(100_000),
  })
  return { start: start.stderr, doctor, left: (await readdir(dataDir)).filter((name) => name.endsWith('.key')) }
}

function options(dataDir: string, DATABASE_URL?: string) {
  return {
    dataDir,
    environment: { ...(DATABASE_URL !== undefined && { DATABASE_URL }), NODE_LISTEN_HOST: '127.0.0.1' },
  }
}

async function claimed(url: string, owner: Parameters<typeof claimLedger>[1]) {
  const database = await openPostgres({ address: url })
  await claimLedger(database, owner, 'server')
  return database
}

test.each([
  ['another wallet', ['identity'], /belongs to the wallet 0x.*this node has no wallet key/],
  ['another seller', ['wallet'], /belongs to the seller 12D3.*has no identity\.key/],
] as const)('a start with %s leaves no key behind, and the doctor says why', async (_, has, message) => {
  const { url } = await testServer()
  const { dir, owner } = await seller([...has])
  await (await claimed(url, owner)).close()
  const { start, doctor, left } = await tried(dir, url)
  expect(start).toMatch(message)
  expect(doctor).toMatch(new RegExp(`fail: .*${message.source}`))
  expect(left).toEqual(has.map((name) => `${name}.key`))
})

test('the schema of another seller is not brought up to date', async () => {
  const { url, admin } = await testServer({ isEmpty: true })
  const earlier = migrations.length - 1
  for (const step of [
    'CREATE TABLE schema_version (version bigint NOT NULL, one bigint PRIMARY KEY CHECK (one = 1))',
    `INSERT INTO schema_version VALUES (${earlier}, 1)`,
    ...migrations.slice(0, earlier),
  ])
    await admin.query(step)
  const { owner } = await seller()
  await admin.query('INSERT INTO kv (key, value) VALUES ($1, $2)', ['ledger_owner', JSON.stringify(owner)])
  const { dir } = await seller()
  const { start, doctor } = await tried(dir, url)
  expect(start).toContain(`belongs to the seller ${owner.seller}`)
  expect(doctor).toContain(`belongs to the seller ${owner.seller}`)
  const environment = { DATABASE_URL: url }
  const receipt = await cli(['receipts', 'verify', `0x${'0'.repeat(64)}`], { dataDir: dir, environment })
  expect(receipt.stderr).toContain(`belongs to the seller ${owner.seller}`)
  const from = await testDir()
  await (await openLedger(from, { logger: silentLogger })).close()
  const copy = await cli(['ledger', 'copy', '--from', from, '--to', 'env:DATABASE_URL'], { dataDir: dir, environment })
  expect(copy.stderr).toContain(`holds the ledger of the seller ${owner.seller}`)
  expect((await admin.query('SELECT version::int FROM schema_version')).rows).toEqual([{ version: earlier }])
  expect((await admin.query('SELECT count(*)::int AS n FROM processes')).rows).toEqual([{ n: 0 }])
})

test('a database with tables of another program is refused by name, and nothing is made in it', async () => {
  const { url, admin } = await testServer({ isEmpty: true })
  await admin.query(
    'CREATE TABLE users (id int); CREATE TABLE orders (id int); CREATE TABLE schema_version (version text)',
  )
  const { dir } = await seller()
  const message = /holds tables of another program \(orders, schema_version, users\) and no ledger.*CREATE DATABASE/
  const { start, doctor } = await tried(dir, url)
  expect(start).toMatch(message)
  expect(doctor).toMatch(message)
  const from = await testDir()
  await (await openLedger(from, { logger: silentLogger })).close()
  const copy = await cli(['ledger', 'copy', '--from', from, '--to', 'env:DATABASE_URL'], {
    ...{ dataDir: dir, environment: { DATABASE_URL: url } },
  })
  expect(copy.stderr).toMatch(message)
  const { rows } = await admin.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
  expect(rows.map(({ tablename }) => tablename)).toEqual(['orders', 'schema_version', 'users'])
})

test('a ledger that was copied, or is another one, is refused by start and doctor alike', async () => {
  const { url } = await testServer()
  const { dir, owner } = await seller()
  const database = await claimed(url, owner)
  expect(await examined(dir, url)).toContain('ok: of this seller')
  await writeCopied(database, './elsewhere')
  const copied = await tried(dir, url)
  expect(copied.start).toContain('was copied to ./elsewhere')
  expect(copied.doctor).toMatch(/fail: .*was copied to \.\/elsewhere/)
  await database.close()
  await writeMark(dir, { ledger: randomUUID(), closed: true, server: 'db.example:5432/stoa' })
  const other = await tried(dir, url)
  expect(other.start).toMatch(/does not hold the ledger of .*correct DATABASE_URL/)
  expect(other.doctor).toMatch(/fail: .*does not hold the ledger of .*correct DATABASE_URL/)
  const forgotten = await tried(dir)
  expect(forgotten.start).toContain('set DATABASE_URL')
  expect(forgotten.doctor).toMatch(/fail: .*set DATABASE_URL/)
})

test('a ledger in stoa.db that is refused is known to the doctor', async () => {
  const { dir } = await seller()
  expect(await examined(dir)).toContain('ok: none yet')
  const database = await openLedger(dir, { logger: silentLogger })
  await ledgerId(database)
  await database.close()
  expect(await examined(dir)).toContain('ok: undamaged')
  const copy = join(await testDir(), 'copy')
  await cp(dir, copy, { recursive: true })
  const copied = await tried(copy)
  expect(copied.start).toContain('is a copy of the one in')
  expect(copied.doctor).toMatch(/fail: .*is a copy of the one in/)
  await rm(join(dir, 'stoa.db'))
  const missing = await tried(dir)
  expect(missing.start).toContain('is missing or empty')
  expect(missing.doctor).toMatch(/fail: .*is missing or empty/)
})
