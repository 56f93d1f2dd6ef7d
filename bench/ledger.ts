/**
 * Measures how many changes of the ledger a node makes, one and many at once, on each engine.
 *
 * - SQLite: the floor, in a file of this disk
 * - PostgreSQL: a server on this machine, with fsync
 * - PostgreSQL, 5 ms away: the same server behind a network that takes 5 ms for each round trip
 *
 * A change puts one row of 330 bytes. `plain`: its statements are known from the start. `two steps`: it reads first.
 * `lock`: it takes a lock that all take, reads, and puts.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from '../src/store/database.ts'
import type { LedgerDatabase } from '../src/store/ledger-database.ts'
import { openPostgres } from '../src/store/postgres/open-postgres.ts'
import { lock, one, type Query, run, steps } from '../src/store/query.ts'
import { startPostgresProxy } from '../test/support/postgres-proxy.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { readFlags } from './flags.ts'
import { quantile } from './statistics.ts'
import { aligned } from './table.ts'

const values = readFlags({
  seconds: { type: 'string', default: '2' },
  delay: { type: 'string', default: '5' },
  json: { type: 'boolean', default: false },
})
const MS = Number(values.seconds) * 1000
const BODY = 'x'.repeat(300)

type Engine = { name: string; ledger: LedgerDatabase; bytes(): number; close(): Promise<void> }
type Traffic = { statements: number; roundTrips: number }
type Row = {
  kind: string
  engine: string
  atOnce: number
  perSecond: number
  p50Ms: number
  p99Ms: number
  /** Of each change. */
  statements: number
  roundTrips: number
  bytes: number
}

const put = (id: Uint8Array) => run('INSERT INTO bench (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING', id, BODY)
const twoSteps = (id: Uint8Array) =>
  steps(function* () {
    yield* one('SELECT body FROM bench WHERE id = ?', id)
    return yield* put(id)
  })
const kinds: Record<string, (id: Uint8Array) => Query<unknown>> = {
  plain: put,
  'two steps': twoSteps,
  lock: (id) =>
    steps(function* () {
      yield* lock('bench')
      return yield* twoSteps(id)
    }),
}

const traffic: Traffic = { statements: 0, roundTrips: 0 }
const engines = [
  openSqlite,
  () => openServer('PostgreSQL', 0),
  () => openServer(`PostgreSQL, ${values.delay} ms away`, Number(values.delay)),
]
const rows: Row[] = []
for (const open of engines) {
  const engine = await open()
  await engine.ledger.commit(run('CREATE TABLE bench (id BLOB PRIMARY KEY, body TEXT)'))
  for (const [kind, change] of Object.entries(kinds)) {
    for (const atOnce of [1, 8, 64])
      rows.push({ kind, engine: engine.name, atOnce, ...(await measure(engine, change, atOnce)) })
  }
  await engine.close()
}
const shares = sharesOf()

if (values.json) process.stdout.write(`${JSON.stringify({ rows, shares }, undefined, 2)}\n`)
else process.stdout.write(`${report().join('\n')}\n`)

async function measure(engine: Engine, change: (id: Uint8Array) => Query<unknown>, atOnce: number) {
  // What is prepared once is not counted.
  await engine.ledger.commit(change(randomBytes(32)))
  const before = { ...traffic, bytes: engine.bytes() }
  const times: number[] = []
  const begun = performance.now()
  const work = async () => {
    while (performance.now() - begun < MS) {
      const from = performance.now()
      await engine.ledger.commit(change(randomBytes(32)))
      times.push(performance.now() - from)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  const each = (sum: number) => sum / times.length
  return {
    perSecond: (times.length * 1000) / (performance.now() - begun),
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    statements: each(traffic.statements - before.statements),
    roundTrips: each(traffic.roundTrips - before.roundTrips),
    bytes: each(engine.bytes() - before.bytes),
  }
}

async function openSqlite(): Promise<Engine> {
  const dir = mkdtempSync(join(tmpdir(), 'stoa-bench-'))
  const ledger = openDatabase({ path: join(dir, 'bench.db') })
  const close = async () => {
    await ledger.close()
    rmSync(dir, { recursive: true })
  }
  return { name: 'SQLite', ledger, bytes: () => 0, close }
}

async function openServer(name: string, delayMs: number): Promise<Engine> {
  const server = await startPostgres({ settings: { fsync: 'on' } })
  const proxy = await startPostgresProxy({ host: server.host, port: server.port, delayMs })
  const ledger = await openPostgres({ address: server.address('postgres', proxy.port), traffic })
  const close = async () => {
    await ledger.close()
    await proxy.close()
    await server.stop()
  }
  return { name, ledger, bytes: proxy.bytes, close }
}

/** How much of the speed beside the server is left far from it. */
function sharesOf() {
  const far = rows.filter(({ engine }) => engine.includes('away'))
  return far.map(({ kind, atOnce, perSecond }) => {
    const near = rows.find((row) => row.engine === 'PostgreSQL' && row.kind === kind && row.atOnce === atOnce)!
    return { kind, atOnce, share: perSecond / near.perSecond }
  })
}

function report(): string[] {
  const head = ['', 'at once', 'changes/s', 'p50 ms', 'p99 ms', 'statements', 'round trips', 'bytes']
  const cells = rows.map((row) => [
    `${row.kind}: ${row.engine}`,
    String(row.atOnce),
    row.perSecond.toFixed(0),
    row.p50Ms.toFixed(1),
    row.p99Ms.toFixed(1),
    row.engine === 'SQLite' ? '' : row.statements.toFixed(2),
    row.engine === 'SQLite' ? '' : row.roundTrips.toFixed(2),
    row.engine === 'SQLite' ? '' : row.bytes.toFixed(0),
  ])
  const shown = shares.map(({ kind, atOnce, share }) => [
    `${kind}: far / near`,
    String(atOnce),
    `${Math.round(share * 100)} %`,
  ])
  return [...aligned([head, ...cells]), '', ...aligned(shown)]
}
