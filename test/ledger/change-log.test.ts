import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createChangeLog } from '../../src/store/postgres/change-log.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { lock, nothing, one, run, steps } from '../../src/store/query.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { until } from '../support/until.ts'

async function openMany(count: number) {
  const database = await createTestDatabase()
  const ledgers: LedgerDatabase[] = []
  onTestFinished(async () => {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.drop()
  })
  for (let made = 0; made < count; made += 1) {
    ledgers.push(await openPostgres({ address: database.address() }))
  }
  return { ledgers, address: database.address() }
}

const note = (ledger: LedgerDatabase, id: string) => ledger.commit(nothing(undefined), { record: 'order', id })
const idsOf = async (log: ReturnType<typeof createChangeLog>) => (await log.read()).changes.map(({ id }) => id)

/** A log that has taken its position. */
async function followed(ledger: LedgerDatabase, options: Parameters<typeof createChangeLog>[1] = {}) {
  const log = createChangeLog(ledger, options)
  await log.read()
  return log
}

test('each process is told what the others change from now on, once and in order, and nothing of its own', async () => {
  const { ledgers } = await openMany(3)
  const [first, second, third] = ledgers as [LedgerDatabase, LedgerDatabase, LedgerDatabase]
  await note(first, 'before')
  const logs = await Promise.all([followed(first), followed(second)])
  await note(first, 'a')
  await note(second, 'b')
  await note(third, 'c')
  await first.commit(run("INSERT INTO kv (key, value) VALUES ('x', '')"), { record: 'payment', id: '0x01' })
  expect(await idsOf(logs[0])).toEqual(['b', 'c'])
  expect((await logs[1].read()).changes).toEqual([
    { record: 'order', id: 'a' },
    { record: 'order', id: 'c' },
    { record: 'payment', id: '0x01' },
  ])
  expect(await Promise.all(logs.map(idsOf))).toEqual([[], []])
  expect(await first.query(one("SELECT value FROM kv WHERE key = 'x'"))).toEqual({ value: '' })
})

test('a change that is committed after later ones is told too', async () => {
  const { ledgers, address } = await openMany(3)
  const [slow, quick, reader] = ledgers as [LedgerDatabase, LedgerDatabase, LedgerDatabase]
  await slow.commit(lock('held'))
  const client = new pg.Client(address)
  await client.connect()
  onTestFinished(() => client.end())
  await client.query("BEGIN; SELECT name FROM locks WHERE name = 'held' FOR UPDATE")
  const log = await followed(reader)
  const late = slow.commit(
    steps(function* () {
      yield* slow.note({ record: 'order', id: 'late' })
      yield* lock('held')
    }),
  )
  const waits = 'SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = $1 AND datname = current_database()'
  await until(async () => Number((await client.query(waits, ['Lock'])).rows[0].n) > 0)
  await note(quick, 'later')
  expect(await idsOf(log)).toEqual(['later'])
  await client.query('COMMIT')
  await late
  expect(await idsOf(log)).toEqual(['late'])
})

test('what is rolled back is not told, and what travels beside a change of several steps is', async () => {
  const { ledgers } = await openMany(2)
  const [writer, reader] = ledgers as [LedgerDatabase, LedgerDatabase]
  const log = await followed(reader)
  const failing = steps(function* () {
    yield* run("INSERT INTO kv (key, value) VALUES ('y', '')")
    throw new Error('it is refused')
  })
  await expect(writer.commit(failing, { record: 'order', id: 'refused' })).rejects.toThrow('it is refused')
  const change = steps(function* () {
    yield* lock('some')
    const row = yield* one<{ n: number }>('SELECT count(*) AS n FROM kv WHERE key = ?', 'y')
    yield* run("INSERT INTO kv (key, value) VALUES ('z', '')")
    return row!.n
  })
  expect(await writer.commit(change, { record: 'order', id: 'done' })).toBe(0)
  expect(await idsOf(log)).toEqual(['done'])
})

test('who has slept through changes that are no longer kept is told to read everything again', async () => {
  const { ledgers } = await openMany(3)
  const [writer, sleeper, awake] = ledgers as [LedgerDatabase, LedgerDatabase, LedgerDatabase]
  const asleep = await followed(sleeper)
  const log = await followed(awake)
  for (let n = 0; n < 5; n += 1) await note(writer, `${n}`)
  expect(await idsOf(log)).toEqual(['0', '1', '2', '3', '4'])
  await createChangeLog(writer, { keptMax: 2 }).purge()
  const left = 'SELECT count(*) AS n FROM changes'
  expect(await writer.query(one(left))).toEqual({ n: 2 })
  expect(await asleep.read()).toEqual({ changes: [], isMissed: true, hasMore: false })
  await note(writer, 'next')
  expect([await idsOf(asleep), await idsOf(log)]).toEqual([['next'], ['next']])
  await writer.commit(run('UPDATE changes SET at = 0'))
  await createChangeLog(writer).purge()
  expect(await writer.query(one(left))).toEqual({ n: 0 })
  expect((await log.read()).isMissed).toBe(false)
})

test('many changes are read in pages, and those of a process that has ended are still told', async () => {
  const { ledgers } = await openMany(2)
  const [writer, reader] = ledgers as [LedgerDatabase, LedgerDatabase]
  const log = await followed(reader, { pageMax: 2 })
  for (let n = 0; n < 5; n += 1) await note(writer, `${n}`)
  await writer.close()
  const read: string[] = []
  for (let hasMore = true; hasMore; ) {
    const page = await log.read()
    read.push(...page.changes.map(({ id }) => id))
    hasMore = page.hasMore
  }
  expect(read).toEqual(['0', '1', '2', '3', '4'])
  await reader.commit(run('UPDATE processes SET ended_at = 1 WHERE id = ?', writer.process))
  await log.purge()
  expect(await reader.query(one('SELECT count(*) AS n FROM changes'))).toEqual({ n: 0 })
})

test('a process that has the ledger alone notes nothing', async () => {
  const database = await createTestDatabase()
  const ledger = await openPostgres({ address: database.address(), isAlone: true })
  onTestFinished(async () => {
    await ledger.close()
    await database.drop()
  })
  await note(ledger, 'a')
  await ledger.commit(ledger.note({ record: 'order', id: 'b' }))
  expect(await ledger.query(one('SELECT count(*) AS n FROM changes'))).toEqual({ n: 0 })
})
