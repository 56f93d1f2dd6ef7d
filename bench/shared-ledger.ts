/**
 * Measures what one PostgreSQL carries if several processes of a seller share it: real processes, a server on this
 * machine that flushes each commit.
 *
 * - sales: one read and three changes each (claim, deliver, settle), by the stores of a node. Signatures, network and agents
 *   are left out, so that the database is what ends first.
 * - floor: one bare INSERT of 1 kB with its commit, on 16 connections of each process
 *
 * The calls at once are all of the processes together. `server` and `sellers` in the table are cores: what bounds the
 * rate has none left, or waits. A server that waits for its disk or for a locked row uses less than it could.
 */
import pg from 'pg'
import { readFlags } from './flags.ts'
import type { Load } from './load.ts'
import { type BenchPostgres, startBenchPostgres } from './paid-call/postgres.ts'
import { TRAFFIC, type Traffic } from './paid-call/traffic.ts'
import { type Part, startPart } from './part.ts'
import { median } from './statistics.ts'
import { aligned } from './table.ts'

const values = readFlags({
  seconds: { type: 'string', default: '2' },
  rounds: { type: 'string', default: '3' },
  /** Numbers of processes, separated by commas. */
  processes: { type: 'string', default: '1,2,4' },
  /** Numbers of calls at once, of all processes together, separated by commas. */
  loads: { type: 'string', default: '16,64,256' },
  json: { type: 'boolean', default: false },
})
const durationMs = Number(values.seconds) * 1000
const counts = values.processes.split(',').map(Number)
const loads = values.loads.split(',').map(Number)

type Kind = 'sales' | 'floor'
/** Figures of each call, unless they say otherwise. */
type Sample = {
  kind: Kind
  processes: number
  atOnce: number
  perSecond: number
  p50Ms: number
  statements: number
  roundTrips: number
  /** Transactions that write. */
  groups: number
  flushes: number
  walBytes: number
  serverMicros: number
  /** Cores in use. */
  server: number
  sellers: number
}
type Totals = Pick<Traffic, 'statements' | 'roundTrips' | 'groups'> & {
  flushes: number
  walBytes: number
  serverMs: number
  sellersMs: number
}

const note = (text: string) => process.stderr.write(`${text}\n`)
const server = await startBenchPostgres()
const parts: Part[] = []
try {
  const sales = await startAll('seller.ts', await server.address())
  const floor = await startAll('floor.ts', await withTable(await server.address()))
  const samples: Sample[] = []
  for (const kind of [sales, floor]) await ask(kind, { concurrent: 64, durationMs: 1_000 })
  for (let round = 1; round <= Number(values.rounds); round++) {
    note(`round ${round} of ${values.rounds}`)
    for (const atOnce of loads) {
      for (const processes of counts) {
        samples.push(await measure('sales', sales.slice(0, processes), atOnce))
        samples.push(await measure('floor', floor.slice(0, processes), atOnce))
      }
    }
  }
  const rows = rowsOf(samples)
  process.stdout.write(values.json ? `${JSON.stringify(rows, undefined, 2)}\n` : `${report(rows).join('\n')}\n`)
} finally {
  for (const part of parts) await part.stop()
  await server.stop()
}

async function startAll(file: string, databaseUrl: string): Promise<Part[]> {
  const started: Part[] = []
  for (let count = 0; count < Math.max(...counts); count++) {
    const part = await startPart({ file: `./shared-ledger/${file}`, setup: { databaseUrl } })
    started.push(part)
    parts.push(part)
  }
  return started
}

async function withTable(databaseUrl: string): Promise<string> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query('CREATE TABLE floor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)')
  await client.end()
  return databaseUrl
}

function ask(sellers: readonly Part[], plan: { concurrent: number; durationMs: number }): Promise<Load[]> {
  return Promise.all(sellers.map((seller) => seller.ask<Load>(plan)))
}

async function measure(kind: Kind, sellers: readonly Part[], atOnce: number): Promise<Sample> {
  const before = await totals(sellers, server)
  const begun = performance.now()
  const done = await ask(sellers, { concurrent: Math.ceil(atOnce / sellers.length), durationMs })
  const elapsedMs = performance.now() - begun
  const after = await totals(sellers, server)
  const calls = done.reduce((sum, load) => sum + load.calls, 0)
  const each = (figure: keyof Totals) => (after[figure] - before[figure]) / calls
  return {
    ...{ kind, processes: sellers.length, atOnce },
    perSecond: (calls * 1000) / elapsedMs,
    p50Ms: median(done.map(({ p50Ms }) => p50Ms)),
    ...{ statements: each('statements'), roundTrips: each('roundTrips'), groups: each('groups') },
    ...{ flushes: each('flushes'), walBytes: each('walBytes'), serverMicros: each('serverMs') * 1000 },
    server: (after.serverMs - before.serverMs) / elapsedMs,
    sellers: (after.sellersMs - before.sellersMs) / elapsedMs,
  }
}

async function totals(sellers: readonly Part[], postgres: BenchPostgres): Promise<Totals> {
  const asked = await Promise.all(sellers.map((seller) => seller.ask<Traffic>(TRAFFIC)))
  const cpu = await Promise.all(sellers.map((seller) => seller.cpuMs()))
  const { cpuMs, flushes, walBytes } = await postgres.use()
  const sum = (figure: 'statements' | 'roundTrips' | 'groups') => asked.reduce((all, one) => all + one[figure], 0)
  return {
    ...{ statements: sum('statements'), roundTrips: sum('roundTrips'), groups: sum('groups'), flushes, walBytes },
    ...{ serverMs: cpuMs, sellersMs: cpu.reduce((all, one) => all + one, 0) },
  }
}

/** The median of each figure over all rounds. */
function rowsOf(samples: readonly Sample[]): Sample[] {
  const keys = [...new Set(samples.map(({ kind, processes, atOnce }) => `${kind} ${atOnce} ${processes}`))].toSorted()
  return keys
    .map((key) => samples.filter(({ kind, processes, atOnce }) => `${kind} ${atOnce} ${processes}` === key))
    .map((same) => {
      const of = (figure: Exclude<keyof Sample, 'kind'>) => median(same.map((sample) => sample[figure]))
      const { kind, processes, atOnce } = same[0]!
      return {
        ...{ kind, processes, atOnce, perSecond: of('perSecond'), p50Ms: of('p50Ms'), statements: of('statements') },
        ...{ roundTrips: of('roundTrips'), groups: of('groups'), flushes: of('flushes'), walBytes: of('walBytes') },
        ...{ serverMicros: of('serverMicros'), server: of('server'), sellers: of('sellers') },
      }
    })
    .toSorted((a, b) => a.kind.localeCompare(b.kind) || a.atOnce - b.atOnce || a.processes - b.processes)
}

function report(rows: readonly Sample[]): string[] {
  const head = [
    ...['', 'at once', 'calls/s', 'p50 ms', 'of a call: statements', 'round trips', 'groups', 'flushes', 'log bytes'],
    ...['server CPU µs', 'cores: server', 'sellers'],
  ]
  const lines = rows.map((row) => [
    `${row.kind}, ${row.processes} processes`,
    String(row.atOnce),
    row.perSecond.toFixed(0),
    row.p50Ms.toFixed(1),
    row.statements.toFixed(1),
    ...[row.roundTrips, row.groups, row.flushes].map((value) => value.toFixed(2)),
    row.walBytes.toFixed(0),
    row.serverMicros.toFixed(0),
    ...[row.server, row.sellers].map((value) => value.toFixed(2)),
  ])
  return aligned([head, ...lines])
}
