import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { takeRole } from '../../src/store/ownership.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { createProcesses } from '../../src/store/postgres/processes.ts'
import { run } from '../../src/store/query.ts'
import { createTestDatabase } from '../support/test-postgres.ts'

const said = { version: '1.0.0', addresses: ['/ip4/127.0.0.1/tcp/1'], agents: ['a'], running: 2, isDraining: false }

async function openMany(count: number): Promise<LedgerDatabase[]> {
  const database = await createTestDatabase()
  const ledgers: LedgerDatabase[] = []
  onTestFinished(async () => {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.drop()
  })
  for (let made = 0; made < count; made += 1) {
    ledgers.push(await openPostgres({ address: database.address(), place: `machine ${made}` }))
  }
  return ledgers
}

const processesOf = (ledger: LedgerDatabase) => createProcesses(ledger, systemClock)

/** As if nothing had been heard of a process for longer than its lease. */
const silence = (ledger: LedgerDatabase, dead: LedgerDatabase) =>
  ledger.commit(run('UPDATE processes SET lease_until = 1 WHERE id = ?', dead.process))

test('processes that share a ledger see one another, and what each says of itself', async () => {
  const [first, second] = (await openMany(2)) as [LedgerDatabase, LedgerDatabase]
  await processesOf(second).report(said)
  const alive = await processesOf(first).alive()
  expect(alive.map(({ id, place }) => [id, place])).toEqual([
    [first.process, 'machine 0'],
    [second.process, 'machine 1'],
  ])
  expect(alive.map(({ report }) => report)).toEqual([
    undefined,
    { ...said, aheadMs: expect.any(Number), schema: expect.any(Number) },
  ])
  await second.close()
  expect(await processesOf(first).alive()).toHaveLength(1)
  expect(await processesOf(first).endDead()).toContain(second.process)
})

test('T31 a process with very many or long addresses says the first 64 that fit, and all else', async () => {
  const [first, second] = (await openMany(2)) as [LedgerDatabase, LedgerDatabase]
  const addresses = Array.from({ length: 100 }, (_, at) => `/ip4/9.9.9.9/tcp/${at}`)
  await processesOf(first).report({ ...said, addresses: [`/dns4/${'a'.repeat(600)}/tcp/1`, ...addresses] })
  const [report] = (await processesOf(second).alive()).map((one) => one.report)
  expect(report).toMatchObject({ ...said, addresses: addresses.slice(0, 64) })
})

test('of a report of another version everything is read that can be', async () => {
  const [first] = (await openMany(1)) as [LedgerDatabase]
  const read = async (report: unknown) => {
    await first.commit(run('UPDATE processes SET report = ? WHERE id = ?', JSON.stringify(report), first.process))
    return (await processesOf(first).alive())[0]!.report
  }
  const addresses = Array.from({ length: 100 }, (_, at) => `/ip4/9.9.9.9/tcp/${at}`)
  const later = {
    ...said,
    aheadMs: 1,
    addresses,
    latency: 'low',
    workers: [{ id: 'w', agents: 7 }],
    lagMs: 3,
    more: {},
  }
  const { more: _, latency: __, workers: ___, ...rest } = later
  expect(await read(later)).toEqual({ ...rest, addresses: addresses.slice(0, 64) })
  expect(await read({ agents: ['a'] })).toMatchObject({ agents: ['a'], addresses: [], isDraining: false })
  for (const none of ['text', [said], 7]) expect(await read(none)).toBeUndefined()
})

test('a look shows who is alive, who stopped, who was lost, and who has which role', async () => {
  const [first, stopped, lost] = (await openMany(3)) as [LedgerDatabase, LedgerDatabase, LedgerDatabase]
  await takeRole(first, 'housekeeping')
  await stopped.close()
  await silence(first, lost)
  await processesOf(first).endDead()
  const { alive, ended, roles } = await processesOf(first).sight()
  expect(alive.map(({ id }) => id)).toEqual([first.process])
  expect(Object.fromEntries(ended.map(({ id, isLost }) => [id, isLost]))).toEqual({
    [stopped.process]: false,
    [lost.process]: true,
  })
  expect(ended.find(({ id }) => id === lost.process)!.silentMs).toBeGreaterThan(60_000)
  expect(roles).toEqual([{ name: 'housekeeping', process: first.process }])
})

test.each([3_600_000, -3_600_000])('how far a clock is ahead is said: %i ms', async (offMs) => {
  const [ledger] = (await openMany(1)) as [LedgerDatabase]
  const processes = createProcesses(ledger, { now: () => systemClock.now() + offMs })
  const measured = [await processes.report(said), await processes.aheadMs()]
  const [own] = await processesOf(ledger).alive()
  for (const aheadMs of [own!.report!.aheadMs, ...measured]) expect(Math.abs(aheadMs - offMs)).toBeLessThan(20_000)
})

test('a network that takes minutes makes no clock look wrong', async () => {
  const [ledger] = (await openMany(1)) as [LedgerDatabase]
  let late = -600_000
  const slow = {
    now() {
      late += 600_000
      return systemClock.now() + late - 300_000
    },
  }
  expect(await createProcesses(ledger, slow).aheadMs()).toBe(0)
})

test('a process whose lease is over is ended by the others, and writes nothing more', async () => {
  const [first, second] = (await openMany(2)) as [LedgerDatabase, LedgerDatabase]
  expect(await processesOf(first).endDead()).toEqual([])
  await silence(first, second)
  expect(await processesOf(first).endDead()).toEqual([second.process])
  await expect(second.commit(run("INSERT INTO kv (key, value) VALUES ('late', '')"))).rejects.toMatchObject({
    code: 'STORE_IN_USE',
  })
})

test('of two processes one has a role, until it ends', async () => {
  const [first, second] = (await openMany(2)) as [LedgerDatabase, LedgerDatabase]
  const roles = await Promise.all([first, second].map((ledger) => takeRole(ledger, 'housekeeping')))
  expect(roles.toSorted()).toEqual([false, true])
  const [keeper, other] = roles[0] ? [first, second] : [second, first]
  expect([await takeRole(keeper, 'housekeeping'), await takeRole(other, 'housekeeping')]).toEqual([true, false])
  await keeper.close()
  expect(await takeRole(other, 'housekeeping')).toBe(true)
})

test('a process that shares a ledger is not let in beside one that does not, nor the other way round', async () => {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const address = database.address()
  for (const isAlone of [true, false]) {
    const first = await openPostgres({ address, isAlone })
    await expect(openPostgres({ address, isAlone: !isAlone })).rejects.toMatchObject({ code: 'STORE_IN_USE' })
    await first.close()
  }
})

test('T16 after a time without the database nobody is ended until the others could come back', async () => {
  const [first, second] = (await openMany(2)) as [LedgerDatabase, LedgerDatabase]
  let now = 0
  const processes = createProcesses(first, systemClock, () => now)
  await processes.endDead()
  await silence(first, second)
  now += 30_000
  expect(await processes.endDead()).toEqual([])
  for (; now < 49_000; now += 3_000) expect(await processes.endDead()).toEqual([])
  now = 50_000
  expect(await processes.endDead()).toEqual([second.process])
})

test('T16 a process that starts when the leases of all others are over ends none of them: the database was away', async () => {
  const database = await createTestDatabase()
  const open = () => openPostgres({ address: database.address() })
  const ledgers = [await open(), await open()]
  onTestFinished(async () => {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.drop()
  })
  const admin = new pg.Client(database.address())
  await admin.connect()
  await admin.query('UPDATE processes SET lease_until = 1')
  await admin.end()
  const started = await open()
  ledgers.push(started)
  const processes = processesOf(started)
  expect([await processes.endDead(), (await processes.alive()).length]).toEqual([[], 3])
})
