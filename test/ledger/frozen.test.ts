/** A process that stands still or is cut off in the middle of a transaction does not stop the others. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { createProcesses } from '../../src/store/postgres/processes.ts'
import { one, run } from '../../src/store/query.ts'
import { startPostgresProxy } from '../support/postgres-proxy.ts'
import { createTestDatabase, testPostgres } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

/** Much shorter than what any timeout of the server would take. */
const LEASE_MS = 4_000
const LONG = { timeoutMs: 60_000 }

type Options = Partial<Parameters<typeof openPostgres>[0]>

const put = (key: string, value: string) =>
  run('INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value', key, value)
const frozenRow = one<{ value: string }>("SELECT value FROM kv WHERE key = 'frozen'")
const endDead = (ledger: LedgerDatabase) => createProcesses(ledger, systemClock).endDead()
const isEnded = (id: string, by: LedgerDatabase) => until(async () => (await endDead(by)).includes(id), LONG)

async function setup() {
  const database = await createTestDatabase()
  const ledgers: LedgerDatabase[] = []
  onTestFinished(async () => {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.drop()
  })
  const open = async (options: Options = {}) => {
    const ledger = await openPostgres({ address: database.address(), ...options })
    ledgers.push(ledger)
    return ledger
  }
  return { database, open }
}

/** A process whose network swallows everything once it has changed the row `frozen`: the server waits for the rest. */
async function cutOff({ database, open }: Awaited<ReturnType<typeof setup>>, options: Options = {}) {
  const proxy = await startPostgresProxy(await testPostgres())
  onTestFinished(() => proxy.close())
  const ledger = await open({ address: database.address(proxy.port), ...options })
  await ledger.commit(put('frozen', 'before'))
  let executed = 0
  let isCut = false
  proxy.onMessage(({ from, type }) => {
    executed += from === 'client' && type === 'E' ? 1 : 0
    // Begun, fenced and changed. The commit and the end of the batch do not come.
    isCut ||= executed > 3
    return isCut ? 'hold' : 'pass'
  })
  const change = ledger.commit(put('frozen', 'late')).then(
    () => 'committed',
    ({ code }: { code: string }) => code,
  )
  await until(() => isCut)
  return {
    ...{ ledger, change },
    reconnect() {
      proxy.onMessage(() => 'pass')
      proxy.cut()
    },
  }
}

/** Resolves when the server has the change: the row of the process is locked. */
async function locked(address: string, id: string): Promise<void> {
  const client = new pg.Client(address)
  await client.connect()
  const look = 'SELECT id FROM processes WHERE id = $1 FOR UPDATE SKIP LOCKED'
  await until(async () => (await client.query(look, [id])).rows.length === 0)
  await client.end()
}

test('a process that is cut off in a batch is ended after its lease, and what it had locked is free', async () => {
  const made = await setup()
  const other = await made.open({ leaseMs: LEASE_MS })
  const cut = await cutOff(made, { leaseMs: LEASE_MS })
  await locked(made.database.address(), cut.ledger.process)
  await isEnded(cut.ledger.process, other)
  await other.commit(put('frozen', 'by the other'))
  cut.reconnect()
  expect(await cut.change).toMatch(/STORE_IN_USE|STORE_IN_DOUBT/)
  expect(await other.query(frozenRow)).toEqual({ value: 'by the other' })
})

test('a process that is stopped within a change is ended after its lease, and changes nothing when it wakes up', async () => {
  const { database, open } = await setup()
  const other = await open({ leaseMs: LEASE_MS })
  const file = join(import.meta.dirname, '../support/frozen-process.ts')
  const child = spawn(process.execPath, [file, database.address(), String(LEASE_MS)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const id = (await lines.next()).value ?? ''
  await locked(database.address(), id)
  await isEnded(id, other)
  await other.commit(put('frozen', 'by the other'))
  child.kill('SIGCONT')
  expect((await lines.next()).value).toBe('STORE_IN_USE')
  await once(child, 'exit')
  expect(await other.query(frozenRow)).toEqual({ value: 'by the other' })
})

test('while a process is cut off, its locks hold up what needs them for a limited time, and nothing else', async () => {
  const made = await setup()
  const cut = await cutOff(made)
  await locked(made.database.address(), cut.ledger.process)
  const other = await made.open({ waitMs: 1 })
  const away = { code: 'STORE_AWAY', message: expect.stringContaining('pg_stat_activity') }
  await expect(other.commit(put('frozen', 'too early'))).rejects.toMatchObject(away)
  await other.commit(put('beside', ''))
  // Its lease is not over: it may come back.
  expect(await endDead(other)).toEqual([])
  cut.reconnect()
  expect(await cut.change).toBe('committed')
  await other.commit(put('frozen', 'by the other'))
  expect(await other.query(frozenRow)).toEqual({ value: 'by the other' })
})

test('a process that dies in a transaction and whose network hides it does not keep another from its start', async () => {
  const made = await setup()
  const cut = await cutOff(made, { leaseMs: LEASE_MS })
  await locked(made.database.address(), cut.ledger.process)
  const client = new pg.Client(made.database.address())
  await client.connect()
  const over = `SELECT 1 FROM processes WHERE id = $1
    AND lease_until + ${LEASE_MS} < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)`
  await until(async () => (await client.query(over, [cut.ledger.process])).rows.length > 0, LONG)
  await client.end()
  // Alone: it is let in only if no other is left.
  const next = await made.open({ isAlone: true, leaseMs: LEASE_MS })
  await next.commit(put('frozen', 'by the next'))
  cut.reconnect()
  expect(await cut.change).toMatch(/STORE_IN_USE|STORE_IN_DOUBT/)
})

test('a process that waits for a lock for longer than its lease is not taken for dead', async () => {
  const { database, open } = await setup()
  const waiting = await open({ leaseMs: LEASE_MS, waitMs: 3 * LEASE_MS })
  const other = await open({ leaseMs: LEASE_MS })
  await waiting.commit(put('held', 'before'))
  const client = new pg.Client(database.address())
  await client.connect()
  onTestFinished(() => client.end())
  await client.query("BEGIN; UPDATE kv SET value = 'elsewhere' WHERE key = 'held'")
  let refused: string | undefined
  waiting.commit(put('held', 'refused')).catch(({ code }) => {
    refused = code
  })
  await until(async () => {
    expect(await endDead(other)).toEqual([])
    return refused
  }, LONG)
  expect(refused).toBe('STORE_AWAY')
  await client.query('ROLLBACK')
  await waiting.commit(put('held', 'after'))
  expect(waiting.damage()).toBeUndefined()
})
