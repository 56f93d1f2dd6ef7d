import { closeSync, mkdtempSync, openSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { openError } from './file-errors.ts'
import { migrations } from './migrations.ts'

const put = 'INSERT INTO kv (key, value) VALUES (?, ?)'
const count = 'SELECT count(*) AS n FROM kv'
/** Before this step, a check was a list. */
const SHORT_CHECKS = migrations.findIndex((step) => step.includes('writable_schema'))
const scratch = () => join(mkdtempSync(join(tmpdir(), 'stoa-store-')), 'stoa.db')

test('a write resolves once it is committed and is there after reopening', async () => {
  const path = scratch()
  const first = openDatabase({ path })
  expect(await first.write(() => first.prepare(put).run('a', '1').changes)).toBe(1)
  await first.close()
  const second = openDatabase({ path })
  expect(second.prepare(count).get()).toEqual({ n: 1 })
  await second.close()
})

test('writes of one turn share one commit, and one that throws takes no other with it', async () => {
  const database = openDatabase({ path: ':memory:' })
  const settled = await Promise.allSettled([
    database.write(() => database.prepare(put).run('a', '1').changes),
    database.write(() => {
      database.prepare(put).run('b', '1')
      throw new Error('refused')
    }),
    database.write(() => database.prepare(put).run('c', '1').changes),
  ])
  expect(settled.map((one) => one.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(database.prepare('SELECT key FROM kv ORDER BY key').all()).toEqual([{ key: 'a' }, { key: 'c' }])
})

test('what a statement of a write keeps aside stays in memory, and what is read may be sorted in files', async () => {
  const database = openDatabase({ path: ':memory:' })
  const store = () => database.one('PRAGMA temp_store')
  expect(await database.write(store)).toEqual({ temp_store: 2 })
  expect(store()).toEqual({ temp_store: 1 })
  const fails = () => database.run('INSERT INTO nothing VALUES (1)')
  await expect(database.write(fails)).rejects.toThrow('nothing')
  expect(store()).toEqual({ temp_store: 1 })
})

test('close commits everything that waits', async () => {
  const path = scratch()
  const database = openDatabase({ path })
  const write = database.write(() => database.prepare(put).run('a', '1'))
  await database.close()
  await write
  expect(openDatabase({ path }).prepare(count).get()).toEqual({ n: 1 })
})

test('durability is synchronous=FULL over WAL', () => {
  const database = openDatabase({ path: scratch() })
  expect(database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 2 })
  expect(database.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
})

test('a new file has pages of 8 KiB, and one that was made with others keeps them', async () => {
  const pageSize = (path: string) => openDatabase({ path }).prepare('PRAGMA page_size').get()
  expect(pageSize(scratch())).toEqual({ page_size: 8192 })
  const path = scratch()
  const before = new DatabaseSync(path)
  before.exec('PRAGMA page_size = 4096; CREATE TABLE filler (a TEXT); DROP TABLE filler')
  before.close()
  expect(pageSize(path)).toEqual({ page_size: 4096 })
})

test('a statement that writes a row makes no table of the values that its column may have', async () => {
  const path = scratch()
  const before = new DatabaseSync(path)
  for (const step of migrations.slice(0, SHORT_CHECKS)) before.exec(step)
  const rows = (state: string) => `INSERT INTO orders (id, agent_id, price, status, created_at, updated_at)
    VALUES ('of ${state}', 'agent', 1, '${state}', 1, 1)`
  before.exec(`${rows('executing')}; PRAGMA user_version = ${SHORT_CHECKS}`)
  const tables = (database: Pick<DatabaseSync, 'prepare'>, sql: string) =>
    database
      .prepare(`EXPLAIN ${sql}`)
      .all()
      .filter(({ opcode }) => opcode === 'OpenEphemeral').length
  expect(tables(before, rows('failed'))).toBe(1)
  before.close()

  const database = openDatabase({ path })
  expect(database.all('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }])
  database.run(rows('failed'))
  expect(database.all('SELECT status FROM orders')).toEqual([{ status: 'executing' }, { status: 'failed' }])
  expect(() => database.run(rows('odd'))).toThrow('CHECK constraint failed')
  for (const [table, column] of [
    ['orders', 'status'],
    ['authorizations', 'state'],
    ['payments', 'state'],
  ]) {
    expect(tables(database, `UPDATE ${table} SET ${column} = ''`), table).toBe(0)
  }
  expect(() => database.run(`UPDATE sqlite_schema SET sql = ''`)).toThrow('may not be modified')
  await database.close()
})

test('only its owner can read the database and its log (T21)', async () => {
  const path = scratch()
  const database = openDatabase({ path })
  await database.write(() => database.prepare(put).run('a', '1'))
  expect(['', '-wal', '-shm'].map((end) => statSync(path + end).mode & 0o777)).toEqual([0o600, 0o600, 0o600])
  await database.close()
})

test('a database of a later version is refused with the fix', () => {
  const path = scratch()
  const later = new DatabaseSync(path)
  later.exec('PRAGMA user_version = 999')
  later.close()
  expect(() => openDatabase({ path })).toThrow(/upgrade stoa/)
})

test('a file that is no database is refused and left as it was', () => {
  const path = scratch()
  writeFileSync(path, 'not a database at all, just some text that is long enough to look at')
  expect(() => openDatabase({ path })).toThrow(/cannot open .*backup/)
})

test('damage that a change meets when it begins is told as damage, and ends all changes', async () => {
  const path = scratch()
  const told: string[] = []
  const database = openDatabase({ path, onDamage: ({ code }) => void told.push(code) })
  // Another one writes, so that this one reads the first page again.
  const other = new DatabaseSync(path)
  other.exec("INSERT INTO kv (key, value) VALUES ('a', '1'); PRAGMA wal_checkpoint(TRUNCATE)")
  const file = openSync(path, 'r+')
  writeSync(file, Buffer.alloc(100, 1), 0, 100, 0)
  closeSync(file)
  await expect(database.write(() => 1)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  await expect(database.write(() => 1)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  expect(told).toEqual(['STORE_DAMAGED'])
})

test('a full disk at the start is told as one: nobody is sent to move the ledger away (T16)', () => {
  const sqlite = new DatabaseSync(':memory:')
  sqlite.exec('PRAGMA max_page_count = 1')
  let full: unknown
  try {
    sqlite.exec('CREATE TABLE a (b TEXT); CREATE TABLE c (d TEXT)')
  } catch (error) {
    full = error
  }
  const told = openError('/data/stoa.db', full)
  expect(told).toMatchObject({ code: 'STORE_WRITE_FAILED', message: expect.stringContaining('free some space') })
  expect(told.message).not.toContain('move the file')
  expect(openError('/data/stoa.db', new Error('damaged')).message).toContain('move the file away')
})

test('a full disk rejects the write with a hint and keeps the store usable (T16)', async () => {
  const database = openDatabase({ path: scratch() })
  const { page_count } = database.prepare('PRAGMA page_count').get() as { page_count: number }
  database.prepare(`PRAGMA max_page_count = ${page_count + 2}`).get()
  const big = database.write(() => database.prepare(put).run('big', 'x'.repeat(1_000_000)))
  await expect(big).rejects.toMatchObject({
    code: 'STORE_WRITE_FAILED',
    message: expect.stringContaining('free space'),
  })
  expect(await database.write(() => database.prepare(put).run('small', 'x').changes)).toBe(1)
  // What needs room is refused still, so it goes on being told for a while.
  expect(database.refused()).toMatchObject({ code: 'STORE_WRITE_FAILED' })
})
