import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { openDatabase } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { startPostgres } from '../../test/support/postgres-server.ts'

/** A place for a ledger that is filled by SQL of the engine itself, and read as a node reads it. */
export type Engine = {
  readonly name: string
  /** SQL for the numbers `from` to `to`, as rows with the column `i`. */
  numbers(from: number, to: number): string
  /** SQL for bytes that `seed` and the number `i` decide. */
  bytes(seed: string, count: number): string
  /** SQL for bytes that are the same in each row: no index holds them. */
  filler(count: number): string
  /** SQL for 32 hexadecimal digits that `seed` and the number `i` decide. */
  text(seed: string): string
  /** Opens the ledger for its own SQL. */
  fill(work: (exec: Exec) => Promise<void>): Promise<void>
  /** Opens the ledger as a node does. */
  open(): Promise<LedgerDatabase>
  /** Deletes everything. */
  remove(): Promise<void>
}
export type Exec = { run(sql: string): Promise<void>; rows<Row>(sql: string): Promise<Row[]>; readonly indices: string }

/** A query may take long: that is what is measured. */
const ANSWER_MS_MAX = 1_800_000

export async function postgresEngine(): Promise<Engine> {
  // What is measured is read. A fill without fsync takes half the time.
  const settings = { fsync: 'off', autovacuum: 'off', shared_buffers: '256MB', max_wal_size: '8GB' }
  const server = await startPostgres({ settings })
  const address = server.address('postgres')
  const open = () => openPostgres({ address, answerMs: ANSWER_MS_MAX })
  await (await open()).close()
  return {
    name: 'PostgreSQL',
    numbers: (from, to) => `generate_series(CAST(${from} AS bigint), CAST(${to} AS bigint)) AS n (i)`,
    bytes(seed, count) {
      const blocks = Array.from(
        { length: Math.ceil(count / 32) },
        (_, at) => `sha256(convert_to('${seed}${at}' || i, 'UTF8'))`,
      )
      return `substring(${blocks.join(' || ')} FROM 1 FOR ${count})`
    },
    filler: (count) => `decode(repeat('ab', ${count}), 'hex')`,
    text: (seed) => `md5('${seed}' || i)`,
    async fill(work) {
      const client = new pg.Client({ connectionString: address })
      await client.connect()
      await client.query("SET maintenance_work_mem = '1GB'; SET synchronous_commit = off")
      await work({
        run: async (sql) => void (await client.query(sql)),
        rows: async <Row>(sql: string) => (await client.query(sql)).rows as Row[],
        // Without those that are part of a constraint.
        indices: `SELECT indexname AS name, indexdef AS sql FROM pg_indexes
          WHERE schemaname = 'public' AND indexname NOT IN (SELECT conname FROM pg_constraint)`,
      })
      await client.query("SELECT setval(pg_get_serial_sequence('payments', 'no'), (SELECT max(no) FROM payments))")
      await client.query("SELECT setval(pg_get_serial_sequence('orders', 'no'), (SELECT max(no) FROM orders))")
      await client.query("SELECT setval(pg_get_serial_sequence('exchanges', 'id'), (SELECT max(id) FROM exchanges))")
      await client.query('VACUUM ANALYZE')
      await client.end()
    },
    open,
    remove: () => server.stop(),
  }
}

export async function sqliteEngine(): Promise<Engine> {
  const dir = mkdtempSync(join(tmpdir(), 'stoa-bench-'))
  const path = join(dir, 'stoa.db')
  await openDatabase({ path }).close()
  return {
    name: 'SQLite',
    numbers: (from, to) =>
      `(WITH RECURSIVE n (i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to}) SELECT i FROM n) AS n`,
    bytes: (seed, count) => `bytes('${seed}', i, ${count})`,
    filler: (count) => `zeroblob(${count})`,
    text: (seed) => `lower(hex(bytes('${seed}', i, 16)))`,
    async fill(work) {
      const sqlite = new DatabaseSync(path)
      sqlite.function('bytes', { deterministic: true }, (seed, i, count) => {
        const block = (at: number) => createHash('sha256').update(`${seed}${at}${i}`).digest()
        return Buffer.concat(Array.from({ length: Math.ceil(Number(count) / 32) }, (_, at) => block(at))).subarray(
          0,
          Number(count),
        )
      })
      sqlite.exec('PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -500000')
      await work({
        run: async (sql) => sqlite.exec(sql),
        rows: async <Row>(sql: string) => sqlite.prepare(sql).all() as Row[],
        indices: `SELECT name, sql FROM sqlite_schema
          WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ('payments', 'exchanges', 'orders', 'authorizations')`,
      })
      sqlite.close()
    },
    open: async () => openDatabase({ path }),
    async remove() {
      rmSync(dir, { recursive: true })
    },
  }
}
