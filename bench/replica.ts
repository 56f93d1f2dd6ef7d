/**
 * Measures the cost of a replica of a large market, beside its floor in the same run:
 *
 * - a new empty node and a complete node, in two processes, over libp2p on loopback; the floor only checks the same
 * signatures, on all cores
 * - two nodes that differ in ten listings
 * - a change on its way to twenty nodes
 * - start and memory of `stoa start` with the market and with an empty market
 * - an hour of a simulated clock without changes, beside the refreshes that gossip brings in an hour
 *
 * For search see bench/search.ts. For reconciliation alone see bench/reconcile.ts. Compare only figures of the same
 * run.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readFlags } from './flags.ts'
import { startPart } from './part.ts'
import type { Floor } from './replica/floor.ts'
import type { IdleHour } from './replica/idle-hour.ts'
import { writeMarket } from './replica/market.ts'
import type { Met, Session } from './replica/peer.ts'
import { type Start, startOnce } from './start/program.ts'
import { median, quantile } from './statistics.ts'

const values = readFlags({
  json: { type: 'boolean', default: false },
  listings: { type: 'string', default: '100000' },
  /** Any of catch-up, reach, start, idle, separated by commas. The last two need the first. */
  only: { type: 'string', default: 'catch-up,reach,start,idle' },
})
const count = Number(values.listings)
const only = values.only.split(',')
const CHANGES = 10
const REACHED = 40
const STARTS = 3
const note = (text: string) => process.stderr.write(`${text}\n`)

type Goal = { name: string; value: number; limit: number; unit: string }
const goals: Goal[] = []
const figures: Record<string, unknown> = {}
const directory = mkdtempSync(join(tmpdir(), 'stoa-bench-replica-'))
const [market, learned] = [join(directory, 'market.db'), join(directory, 'learned.db')]
try {
  if (only.some((part) => part !== 'reach')) {
    note(`making ${count} signed listings`)
    const { bytes } = await writeMarket(market, count, Date.now())
    figures.bytesPerListing = Math.round(bytes / count)
  }
  if (only.includes('catch-up')) await benchCatchUp()
  if (only.includes('start')) await benchStart()
  if (only.includes('idle')) await benchIdleHour()
  if (only.includes('reach')) await benchReach()
} finally {
  rmSync(directory, { recursive: true, force: true })
}
report()

async function benchCatchUp(): Promise<void> {
  note('a new node catches up')
  const server = await startPart({ file: './replica/peer.ts', setup: { path: market } })
  const client = await startPart({ file: './replica/peer.ts', setup: { path: learned, search: 'yes', roundMs: '200' } })
  const before = await Promise.all([client.cpuMs(), server.cpuMs()])
  const met = await client.ask<Met>({ kind: 'meet', ...server.ready, count })
  const after = await Promise.all([client.cpuMs(), server.cpuMs()])
  const floor = await client.ask<Floor>({ kind: 'verify' })
  const [cpuMs, serverCpuMs] = after.map((ms, side) => ms - before[side]!)
  figures.catchUp = { ...met, cpuMs, serverCpuMs }
  figures.floor = floor
  goals.push({ name: `to ${count} listings, of the floor`, value: met.ms / floor.ms, limit: 2, unit: '×' })

  note('ten changes')
  const found: Session[] = []
  for (let turn = 0; turn < 12 && found.length < 4; turn++) {
    await server.ask({ kind: 'publish', from: 0, count: CHANGES })
    // The first round publishes the listings, and the other rounds change them.
    const session = await client.ask<Session | undefined>({ kind: 'session', bytesMin: 2000, bytesMax: 100_000 })
    if (session !== undefined) found.push(session)
  }
  const bytes = median(found.map(({ toServer, toClient }) => toServer + toClient))
  const ms = median(found.map((session) => session.ms))
  figures.changes = { sessions: found.length, bytes, ms }
  goals.push({ name: `${CHANGES} changes, listings and all`, value: bytes, limit: 20_000, unit: 'bytes' })
  goals.push({ name: `${CHANGES} changes`, value: ms, limit: 100, unit: 'ms' })

  note('indexing what came')
  await client.ask({ kind: 'index' })
  await client.stop()
  await server.stop()
}

async function benchStart(): Promise<void> {
  note('starting with it and without')
  const program = (name: string) => ({
    name,
    file: fileURLToPath(new URL('../bin/stoa.js', import.meta.url)),
    args: (dataDir: string) => {
      const ports = ['--port', '0', '--api-port', '0', '--no-mdns']
      return ['start', '--json', '--data-dir', dataDir, ...ports]
    },
    ready: '"event":"ready"',
  })
  const [empty, full] = [program('empty'), program('full')]
  mkdirSync(join(directory, full.name), { recursive: true, mode: 0o700 })
  cpSync(learned, join(directory, full.name, 'stoa.db'))
  const starts: Record<'empty' | 'full', Start[]> = { empty: [], full: [] }
  for (let round = 0; round <= STARTS; round++) {
    for (const [name, one] of Object.entries({ empty, full })) {
      const start = await startOnce(one, { directory, settleMs: round === 0 ? 0 : 3000 })
      if (round > 0) starts[name as keyof typeof starts].push(start)
    }
  }
  const of = (name: keyof typeof starts) => ({
    readyMs: median(starts[name].map(({ readyMs }) => readyMs)),
    rssMb: median(starts[name].flatMap(({ rssMb }) => rssMb ?? [])),
  })
  const [without, with_] = [of('empty'), of('full')]
  figures.start = { empty: without, full: with_ }
  goals.push({ name: 'start with it', value: with_.readyMs / 1000, limit: 3, unit: 's' })
  goals.push({ name: 'memory over an empty node', value: with_.rssMb - without.rssMb, limit: 150, unit: 'MB' })
}

async function benchIdleHour(): Promise<void> {
  note('an idle hour')
  const setup = { path: learned, market: join(directory, 'idle.db') }
  cpSync(learned, setup.market)
  const part = await startPart({ file: './replica/idle-hour.ts', setup })
  const hour = await part.ask<IdleHour>('hour')
  await part.stop()
  figures.idleHour = hour
  goals.push({
    name: 'idle hour, bytes of the refreshes',
    value: hour.upkeepBytes / hour.refreshBytes,
    limit: 1,
    unit: '×',
  })
  goals.push({
    name: 'idle hour, CPU of the refreshes',
    value: hour.upkeepCpuMs / hour.refreshCpuMs,
    limit: 1,
    unit: '×',
  })
}

async function benchReach(): Promise<void> {
  note('a change reaches twenty nodes')
  const part = await startPart({ file: './replica/crowd.ts', setup: { nodes: '20' } })
  const times = await part.ask<number[]>(REACHED)
  await part.stop()
  figures.reach = { changes: REACHED, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99) }
  goals.push({ name: 'a change reaches 20 nodes, p99', value: quantile(times, 0.99), limit: 500, unit: 'ms' })
}

function report(): void {
  const judged = goals.map((goal) => ({ ...goal, met: goal.value <= goal.limit }))
  const setting = { node: process.version, cores: availableParallelism(), listings: count }
  if (values.json) {
    process.stdout.write(`${JSON.stringify({ setting, figures, goals: judged }, undefined, 2)}\n`)
    return
  }
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 10) / 10 : value)
  const lines = Object.entries({ setting, ...figures }).map(([name, one]) => `${name}: ${JSON.stringify(one, rounded)}`)
  const verdicts = judged.map(({ name, value, limit, unit, met }) => {
    return `${met ? 'met   ' : 'missed'}  ${name}: ${value.toFixed(2)} ${unit} (goal: at most ${limit})`
  })
  process.stdout.write(`${[...lines, '', ...verdicts].join('\n')}\n`)
}
