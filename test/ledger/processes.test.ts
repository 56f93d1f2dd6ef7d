import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { hasRole } from '../../src/store/ownership.ts'
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
    ledgers.push(await openPostgres({ address: database.address(), isShared: true, place: `machine ${made}` }))
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
  expect(alive.map(({ report }) => report)).toEqual([undefined, { ...said, aheadMs: expect.any(Number) }])
  await second.close()
  expect(await processesOf(first).alive()).toHaveLength(1)
  expect(await processesOf(first).endDead()).toContain(second.process)
})

test('how far a clock is ahead is said, in ms', async () => {
  const [ledger] = (await openMany(1)) as [LedgerDatabase]
  const hourAhead = { ...systemClock, now: () => systemClock.now() + 3_600_000 }
  await createProcesses(ledger, hourAhead).report(said)
  const [own] = await processesOf(ledger).alive()
  expect(Math.abs(own!.report!.aheadMs - 3_600_000)).toBeLessThan(60_000)
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
  const roles = await Promise.all([first, second].map((ledger) => hasRole(ledger, 'housekeeping')))
  expect(roles.toSorted()).toEqual([false, true])
  const [keeper, other] = roles[0] ? [first, second] : [second, first]
  expect([await hasRole(keeper, 'housekeeping'), await hasRole(other, 'housekeeping')]).toEqual([true, false])
  await keeper.close()
  expect(await hasRole(other, 'housekeeping')).toBe(true)
})

test('a process that shares a ledger is not let in beside one that does not, nor the other way round', async () => {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const address = database.address()
  for (const isShared of [true, false]) {
    const first = await openPostgres({ address, isShared })
    await expect(openPostgres({ address, isShared: !isShared })).rejects.toMatchObject({ code: 'STORE_IN_USE' })
    await first.close()
  }
})
