/** One process at a time holds a ledger on PostgreSQL. */
import { expect, onTestFinished, test, vi } from 'vitest'
import { connect } from '../../src/store/postgres/connection.ts'
import { Holder } from '../../src/store/postgres/holder.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { BEGIN, COMMIT, sentOf } from '../../src/store/postgres/sent.ts'
import { readSettings } from '../../src/store/postgres/settings.ts'
import { all, run } from '../../src/store/query.ts'
import { createTestDatabase, type TestDatabase } from '../support/test-postgres.ts'

const put = (key: string) => run('INSERT INTO kv (key, value) VALUES (?, ?)', key, key)
const keys = all<{ key: string }>('SELECT key FROM kv ORDER BY key')
/** As if the time of the lease had passed. */
const expire = run('UPDATE processes SET lease_until = 0')

test('a second process is refused, is told who holds the ledger, and may have it once that one has closed', async () => {
  const { database, open } = await setup()
  const first = await open({ place: 'the first one' })
  const refused = { code: 'STORE_IN_USE', message: expect.stringContaining('the first one') }
  await expect(open()).rejects.toMatchObject(refused)
  const waiting = openPostgres({ address: database.address(), isAlone: true, takeMs: 60_000 })
  await first.commit(put('first'))
  await first.close()
  const second = await waiting
  expect(await second.query(keys)).toEqual([{ key: 'first' }])
  await second.close()
})

test('a process that slept through its lease changes nothing more and says so, once another has the ledger', async () => {
  const { open } = await setup()
  const onLost = vi.fn()
  const asleep = await open({ onLost })
  await asleep.commit(put('before'))
  await asleep.commit(expire)
  const next = await open()
  await next.commit(put('next'))
  const late = await Promise.allSettled([asleep.commit(put('late')), asleep.commitLater(put('later'))])
  for (const outcome of late) expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'STORE_IN_USE' } })
  expect(onLost).toHaveBeenCalledOnce()
  expect(asleep.damage()).toMatchObject({ code: 'STORE_IN_USE' })
  expect(await next.query(keys)).toEqual([{ key: 'before' }, { key: 'next' }])
  expect(next.damage()).toBeUndefined()
})

test('a process whose lease has ended goes on if nobody took the ledger', async () => {
  const { open } = await setup()
  const ledger = await open()
  await ledger.commit(expire)
  await ledger.commit(put('on'))
  expect(await ledger.query(keys)).toEqual([{ key: 'on' }])
  await expect(open()).rejects.toMatchObject({ code: 'STORE_IN_USE' })
})

test('of many processes that find a dead one, one takes its ledger', async () => {
  const { open } = await setup()
  const dead = await open()
  await dead.commit(expire)
  const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => open()))
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('a connection that was replaced changes nothing more, before or in the middle of its transaction', async () => {
  const { database } = await setup()
  const settings = readSettings(database.address())
  const reach = () => connect({ settings, connectMs: 20_000, answerMs: 20_000 })
  const connections = await Promise.all([reach(), reach(), reach()])
  onTestFinished(() => Promise.all(connections.map((connection) => connection.close())).then(() => {}))
  const [first, second, third] = connections as [
    (typeof connections)[0],
    (typeof connections)[0],
    (typeof connections)[0],
  ]
  const holder = new Holder({ settings, leaseMs: 20_000 })
  await holder.take(first)
  const [late, begun] = [holder.fence(), holder.fence()]
  const inserted = sentOf({ sql: 'INSERT INTO kv VALUES (?, ?)', values: ['a', 'b'], wants: 'changes' })
  expect(await first.send([BEGIN, begun.statement, inserted])).toMatchObject({ kind: 'done' })
  expect(await holder.rejoin(second)).toEqual({ no: 0, isHeld: true })
  expect(await first.send([COMMIT])).toMatchObject({ kind: 'lost' })
  expect(await third.send([BEGIN, late.statement, inserted, COMMIT])).toMatchObject({
    kind: 'refused',
    at: 1,
    error: { code: '22012' },
  })
  const now = holder.fence()
  expect(await second.send([BEGIN, now.statement, inserted, COMMIT])).toMatchObject({ kind: 'done' })
  expect(await holder.rejoin(second)).toEqual({ no: now.no, isHeld: true })
})

type Options = Partial<Parameters<typeof openPostgres>[0]>

async function setup() {
  const database: TestDatabase = await createTestDatabase()
  const ledgers: Awaited<ReturnType<typeof openPostgres>>[] = []
  onTestFinished(async () => {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    await database.drop()
  })
  const open = async (options: Options = {}) => {
    const ledger = await openPostgres({ address: database.address(), isAlone: true, ...options })
    ledgers.push(ledger)
    return ledger
  }
  return { database, open }
}
