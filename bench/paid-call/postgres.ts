import { readFileSync } from 'node:fs'
import pg from 'pg'
import { startPostgresProxy } from '../../test/support/postgres-proxy.ts'
import { startPostgres } from '../../test/support/postgres-server.ts'
import { median } from '../statistics.ts'

/** What a server did so far. */
export type ServerUse = {
  /** CPU time of all its processes, in ms. 0 where the system does not tell. */
  cpuMs: number
  flushes: number
  walBytes: number
}

/** A PostgreSQL of one node, on this machine. */
export type BenchPostgres = {
  /** For DATABASE_URL. `delayMs`: behind a network that takes so long for each round trip. */
  address(delayMs?: number): Promise<string>
  use(): Promise<ServerUse>
  stop(): Promise<void>
}

/** Flushes of the log, by every process of the server. PostgreSQL 18 counts them in `pg_stat_io`. */
const FLUSHES = `SELECT CAST(sum(fsyncs) AS int) AS flushes FROM pg_stat_io WHERE object = 'wal'`
const WAL = 'SELECT CAST(wal_bytes AS float8) AS bytes FROM pg_stat_wal'
const PROCESSES = 'SELECT pid FROM pg_stat_activity'
const TICKS_PER_SECOND = 100
const ROUND_TRIPS = 200

/** Starts a server with the settings of a real one: it flushes each commit to this disk. */
export async function startBenchPostgres(): Promise<BenchPostgres> {
  const settings = { fsync: 'on', autovacuum: 'on', shared_buffers: '128MB', wal_level: 'replica' }
  const server = await startPostgres({ settings })
  const client = new pg.Client({ connectionString: server.address('postgres') })
  await client.connect()
  const stops: (() => Promise<void>)[] = []
  let count = 0
  return {
    async address(delayMs = 0) {
      count += 1
      await client.query(`CREATE DATABASE node_${count}`)
      if (delayMs === 0) return server.address(`node_${count}`)
      const proxy = await startPostgresProxy({ host: server.host, port: server.port, delayMs })
      stops.push(proxy.close)
      return server.address(`node_${count}`, proxy.port)
    },
    async use() {
      const rows = async <Row>(sql: string) => (await client.query(sql)).rows as Row[]
      // Other processes report what they counted after up to a second. These figures are of many calls.
      const [io] = await rows<{ flushes: number }>(FLUSHES)
      const [wal] = await rows<{ bytes: number }>(WAL)
      const processes = await rows<{ pid: number }>(PROCESSES)
      const cpuMs = processes.reduce((sum, { pid }) => sum + cpuMsOf(pid), 0)
      return { cpuMs, flushes: io!.flushes, walBytes: wal!.bytes }
    },
    async stop() {
      await client.end()
      for (const stop of stops) await stop()
      await server.stop()
    },
  }
}

/**
 * What a delay adds to each round trip, in ms: more than the delay, by what the timer and the way through one more process
 * take. Far and near in turn, one statement at a time.
 */
export async function measureRoundTrip(server: BenchPostgres, delayMs: number): Promise<number> {
  const near = new pg.Client({ connectionString: await server.address() })
  const far = new pg.Client({ connectionString: await server.address(delayMs) })
  await near.connect()
  await far.connect()
  try {
    const added: number[] = []
    for (let made = 0; made < ROUND_TRIPS; made += 1) {
      const nearMs = await timeOf(near)
      added.push((await timeOf(far)) - nearMs)
    }
    return median(added)
  } finally {
    await near.end()
    await far.end()
  }
}

async function timeOf(client: pg.Client): Promise<number> {
  const from = performance.now()
  await client.query('SELECT 1')
  return performance.now() - from
}

function cpuMsOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
    return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND
  } catch {
    return 0
  }
}
