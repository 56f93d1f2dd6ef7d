/**
 * Measures the cost of searching a large market, beside its floors, in one run:
 *
 * - ours: the pages of GET /agents, with index and listings on disk as in a node; and the same over HTTP
 * - floor, key: the rows of the same page, read one by one by primary key
 * - floor, scan: the first 50 rows that contain every word, found by LIKE over the full text
 *
 * Each query runs three times and the fastest counts, because other programs may run. `--once` runs each query once.
 * `--kind words` runs only kinds with `words` in their names. Compare only figures of the same run.
 */
import { hash } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { createApi } from '../src/http/server/app.ts'
import { silentLogger } from '../src/lib/logger.ts'
import { createCatalog } from '../src/listings/catalog.ts'
import { ListingRows, rowOf, searchable } from '../src/listings/rows.ts'
import { headOf, type ListingEntry } from '../src/listings/set.ts'
import { PriceText } from '../src/schema/amount.ts'
import type { AgentQuery } from '../src/schema/search.ts'
import { createSearch } from '../src/search/search.ts'
import { openDatabase } from '../src/store/database.ts'
import { createListingSearch } from '../src/store/listing-search.ts'
import { createListingStore } from '../src/store/listings.ts'
import { createLookAlikes } from '../src/store/look-alikes.ts'
import { fakeDeps, loopbackOptions } from '../test/support/fake-api.ts'
import { replicaOf } from '../test/support/listings.ts'
import { readFlags } from './flags.ts'
import { unsigned } from './replica/market.ts'
import { createMarket } from './search/listings.ts'
import { queryKinds } from './search/queries.ts'
import { quantile } from './statistics.ts'

const values = readFlags({
  json: { type: 'boolean', default: false },
  listings: { type: 'string', default: '100000' },
  kind: { type: 'string', default: '' },
  rounds: { type: 'string', default: '200' },
  once: { type: 'boolean', default: false },
})
const count = Number(values.listings)
const rounds = Number(values.rounds)
const GOAL_MS = 10
const NOW = Date.UTC(2026, 0, 1)

const note = (text: string) => process.stderr.write(`${text}\n`)
const directory = mkdtempSync(join(tmpdir(), 'stoa-bench-search-'))
try {
  await bench()
} finally {
  rmSync(directory, { recursive: true, force: true })
}

async function bench(): Promise<void> {
  note(`making ${count} listings`)
  const { records, words } = createMarket(count, NOW)
  const entries = new Map<string, ListingEntry>()
  const rows = records.map((record) => {
    const { payload, envelope } = unsigned(record)
    const entry = { record, hash: hash('sha256', payload), bytes: envelope.length }
    entries.set(record.id, { ...entry, record: headOf(record) })
    const { search: _, ...row } = rowOf(entry, envelope, { seenAt: NOW })
    return row
  })

  note('storing them without an index')
  const bare = openDatabase({ path: join(directory, 'bare.db') })
  const bareMs = await timed(async () => {
    const store = createListingStore(bare)
    for (const row of rows) store.putLater(row)
    await store.flush()
  })
  await bare.close()

  note('storing them with one')
  const database = openDatabase({ path: join(directory, 'stoa.db') })
  const store = createListingStore(database)
  const indexedMs = await timed(async () => {
    for (const [n, row] of rows.entries()) store.putLater({ ...row, search: searchable(records[n]!, NOW) })
    await store.flush()
  })
  note('comparing their names')
  const lookAlikes = createLookAlikes(database)
  const comparedMs = await timed(async () => {
    while (await lookAlikes.step()) {}
  })
  const refreshedMs = await timed(async () => {
    for (const [n, row] of rows.slice(0, 10_000).entries())
      store.putLater({ ...row, version: row.version + 1, search: searchable(records[n]!, NOW) })
    await store.flush()
  })
  database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all()

  const floorText = 'CREATE TABLE floor_text (id TEXT PRIMARY KEY, name TEXT, tags TEXT, description TEXT)'
  database.prepare(floorText).run()
  const insert = database.prepare('INSERT INTO floor_text VALUES (?, ?, ?, ?)')
  await database.write(() => {
    for (const { id, name, tags, description } of records) insert.run(id, name, tags.join(' '), description)
  })

  // As in a node: the heads are in memory, the rest is on disk.
  const stored = new ListingRows({ writeMs: 500 }, { store, logger: silentLogger })
  const get = (id: string) => {
    const entry = entries.get(id)
    return entry === undefined ? undefined : stored.recordOf(entry)
  }
  const catalog = createCatalog({
    replica: { ...replicaOf(() => records, records[0]!.seller_id), get },
    sellerId: records[0]!.seller_id,
    network: 'eip155:84532',
  })
  const search = createSearch({
    clock: { now: () => NOW },
    search: createListingSearch(database),
    catalog,
    sellerId: records[0]!.seller_id,
    presences: {
      of: (sellerId) => (sellerId.charCodeAt(12) % 3 === 0 ? { online: sellerId.charCodeAt(13) % 4 > 0 } : undefined),
    },
  })
  const api = createApi(loopbackOptions, fakeDeps({ market: search }))
  await api.start()

  const byKey = database.prepare('SELECT * FROM met_listings WHERE id = ?')
  const sellerIds = [...new Set(records.map(({ seller_id }) => seller_id))]
  const kinds = queryKinds(words, sellerIds).filter(({ name }) => name.includes(values.kind))
  const results = []
  for (const { name, make } of kinds) {
    note(`searching: ${name}`)
    const times = { ours: [] as number[], http: [] as number[], key: [] as number[], scan: [] as number[] }
    let found = 0
    for (let round = -20; round < rounds; round++) {
      const query = make()
      const ours = await fastest(() => search.page(query))
      const http = await fastest(async () => (await fetch(`${api.url}/agents?${parameters(query)}`)).arrayBuffer())
      const key = await fastest(() => ours.value.items.map(({ id }) => byKey.get(id)))
      const scan = round % 10 === 0 && query.q !== undefined ? await fastest(() => scanned(query.q!)) : undefined
      if (round < 0) continue
      found += ours.value.items.length
      times.ours.push(ours.ms)
      times.http.push(http.ms)
      times.key.push(key.ms)
      if (scan !== undefined) times.scan.push(scan.ms)
    }
    results.push({ name, found: Math.round(found / rounds), ...summary(times) })
  }
  await api.stop()

  function scanned(q: string): unknown[] {
    const sought = q.split(' ')
    const column = "(name || ' ' || tags || ' ' || description)"
    const where = sought.map(() => `${column} LIKE ?`).join(' AND ')
    return database
      .prepare(`SELECT id FROM floor_text WHERE ${where} LIMIT 50`)
      .all(...sought.map((word) => `%${word}%`))
  }

  const size = database
    .prepare(`
    SELECT sum(CASE WHEN name LIKE 'listing_text%' THEN pgsize END) AS text,
      sum(CASE WHEN name LIKE 'met_%' OR name LIKE '%met_listings%' THEN pgsize END) AS met,
      sum(CASE WHEN name IN ('name_keys', 'market_words') THEN pgsize END) AS names,
      sum(CASE WHEN name LIKE '%listings%' AND name NOT LIKE '%met_%' THEN pgsize END) AS rows
    FROM dbstat`)
    .get() as Record<string, number>
  const perListing = (ms: number, of = count) => Math.round((ms / of) * 1e6) / 1000
  const building = {
    listings: count,
    storeMs: Math.round(bareMs),
    storeAndIndexMs: Math.round(indexedMs),
    compareNamesMs: Math.round(comparedMs),
    msPerListing: { store: perListing(bareMs), withIndex: perListing(indexedMs), names: perListing(comparedMs) },
    msPerRefresh: perListing(refreshedMs, Math.min(10_000, count)),
    indexMB: { text: megabytes(size.text), met: megabytes(size.met), names: megabytes(size.names) },
    rowsMB: megabytes(size.rows),
    fileMB: megabytes(statSync(join(directory, 'stoa.db')).size),
  }
  await database.close()
  report(building, results)
}

type Times = Record<'ours' | 'http' | 'key' | 'scan', readonly number[]>
type Result = ReturnType<typeof summary> & { name: string; found: number }

function summary(times: Times) {
  const two = (list: readonly number[]) =>
    list.length === 0 ? undefined : { p50: rounded(quantile(list, 0.5)), p99: rounded(quantile(list, 0.99)) }
  return { ours: two(times.ours)!, http: two(times.http)!, key: two(times.key)!, scan: two(times.scan) }
}

function report(building: object, results: readonly Result[]): void {
  const worst = results.filter(({ ours }) => ours.p99 >= GOAL_MS).map(({ name }) => name)
  if (values.json) {
    process.stdout.write(`${JSON.stringify({ building, results, goalMs: GOAL_MS, over: worst }, undefined, 2)}\n`)
    return
  }
  const lines = Object.entries(building).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
  const cell = (pair: { p50: number; p99: number } | undefined) =>
    pair === undefined ? ''.padStart(15) : `${pair.p50.toFixed(2).padStart(7)} ${pair.p99.toFixed(2).padStart(7)}`
  const head = `${'ms: p50, p99'.padEnd(26)}${'found'.padStart(6)}${'ours'.padStart(16)}${'over HTTP'.padStart(16)}${'by key'.padStart(16)}${'LIKE scan'.padStart(16)}`
  const table = results.map(
    ({ name, found, ours, http, key, scan }) =>
      `${name.padEnd(26)}${String(found).padStart(6)} ${cell(ours)} ${cell(http)} ${cell(key)} ${cell(scan)}`,
  )
  const goal = worst.length === 0 ? 'met by all' : `missed by: ${worst.join(', ')}`
  process.stdout.write(`${[...lines, '', head, ...table, '', `goal, ours p99 < ${GOAL_MS} ms: ${goal}`].join('\n')}\n`)
}

function parameters({ tags, max_price, ...query }: AgentQuery): URLSearchParams {
  const parts = Object.entries(query).map(([name, value]) => [name, String(value)])
  for (const tag of tags ?? []) parts.push(['tags', tag])
  if (max_price !== undefined) parts.push(['max_price', z.encode(PriceText, max_price)])
  return new URLSearchParams(parts)
}

async function fastest<T>(work: () => T): Promise<{ value: Awaited<T>; ms: number }> {
  const first = await clocked(work)
  if (values.once) return first
  const others = [await clocked(work), await clocked(work)]
  return others.reduce((best, one) => (one.ms < best.ms ? one : best), first)
}

async function clocked<T>(work: () => T): Promise<{ value: Awaited<T>; ms: number }> {
  const from = performance.now()
  const value = await work()
  return { value, ms: performance.now() - from }
}

async function timed(work: () => Promise<void>): Promise<number> {
  return (await clocked(work)).ms
}

function megabytes(bytes: number | undefined): number {
  return Math.round((bytes ?? 0) / 1e5) / 10
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
