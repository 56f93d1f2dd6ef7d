import { expect, onTestFinished, test, vi } from 'vitest'
import { agentId, claim, exchangeOf } from '../../test/support/payments.ts'
import { systemClock } from '../lib/clock.ts'
import { silentLogger } from '../lib/logger.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import { createAlarmStore } from '../store/alarms.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { createExchanges } from '../store/exchanges.ts'
import { createPayments } from '../store/payments.ts'
import { createAlarms } from './alarms.ts'

const START = Date.UTC(2026, 0, 1)

function bench(
  database: Database = openDatabase({ path: ':memory:' }),
  changes: Partial<Parameters<typeof createAlarms>[0]> = {},
) {
  const payments = createPayments(database)
  const exchanges = createExchanges(database)
  let now = START
  const alarms = createAlarms({
    clock: { ...systemClock, now: () => now },
    logger: silentLogger,
    store: createAlarmStore(database),
    isShared: false,
    agents: () => [],
    status: () => ({
      connected_peers: 1,
      agents: { local: 1, known: 1 },
      reachability: { state: 'public', addresses: [], relays: [] },
    }),
    differences: () => undefined,
    nameOf: () => 'Summary',
    ...changes,
  })
  const lose = async (error: string, { worked = true } = {}) => {
    now += 1000
    const one = claim(now)
    await payments.claim(one, now)
    if (worked) await payments.deliver({ id: one.id, state: 'owed' }, exchangeOf(one, now), now)
    await payments.save({ id: one.id, state: 'unsettled', error }, now)
  }
  const run = (error?: string) =>
    exchanges.record({
      ...{ agentId, callerId: 'did:peer:them', correlationId: 'c', input: 'x', createdAt: now, durationMs: 1 },
      ...(error === undefined ? { output: 'y' } : { error }),
    })
  return { alarms, lose, run, database }
}

test('D42: unpaid work is one alarm for each reason, with what it comes to; calls where nothing ran are none', async () => {
  const { alarms, lose } = bench()
  await lose('insufficient funds of 0xab12, 5 too few')
  await lose('insufficient funds of 0xcd34, 71 too few')
  await lose('authorization canceled')
  await lose('insufficient funds', { worked: false })
  expect((await alarms.list()).map(({ kind, count, amount }) => [kind, count, amount])).toEqual([
    ['work_unpaid', 1, '0.01'],
    ['work_unpaid', 2, '0.02'],
  ])
  expect((await alarms.list())[1]?.text).toContain('insufficient funds of 0xcd34, 71 too few')
})

test('D42: a dismissed alarm stays away, also after a restart, and comes back with what is new alone', async () => {
  const { alarms, lose, database } = bench()
  await lose('no funds')
  await lose('no funds')
  const [alarm] = await alarms.list()
  expect(await alarms.count()).toBe(1)
  expect(await alarms.dismiss(alarm!.id)).toMatchObject({ id: alarm!.id, dismissed_at: expect.any(String) })
  expect([await alarms.list(), await alarms.count()]).toEqual([[], 0])
  const later = bench(database).alarms
  expect(await later.list()).toEqual([])
  expect(await later.list({ dismissed: true })).toMatchObject([
    { id: alarm!.id, count: 2, dismissed_at: expect.any(String) },
  ])
  await lose('no funds')
  expect(await later.list()).toMatchObject([{ id: alarm!.id, count: 1, amount: '0.01' }])
  expect((await later.list())[0]).not.toHaveProperty('dismissed_at')
})

test('D42: what came after the look at an alarm is not dismissed with it', async () => {
  const { alarms, lose } = bench()
  await lose('no funds')
  const [seen] = await alarms.list()
  await lose('no funds')
  await alarms.dismiss(seen!.id, seen!.mark)
  expect(await alarms.list()).toMatchObject([{ id: seen!.id, count: 1 }])
})

test('D42: an agent is judged by its latest runs, and once dismissed by those alone that came after', async () => {
  const { alarms, run } = bench()
  for (const error of [undefined, undefined, undefined, undefined, 'boom']) await run(error)
  const [failing] = await alarms.list()
  expect(failing).toMatchObject({ kind: 'agent_failing', agent_id: agentId, agent_name: 'Summary', count: 1 })
  await alarms.dismiss(failing!.id)
  await run('boom')
  await run()
  expect(await alarms.list()).toEqual([])
  for (let n = 0; n < 3; n++) await run('boom')
  expect(await alarms.list()).toMatchObject([
    { id: failing!.id, count: 4, title: expect.stringContaining('4 of its latest 5') },
  ])
})

test('D42: an alarm that holds or does not comes back with another reason, and a paused agent is none', async () => {
  let agents = [{ id: 'x', name: 'Draft', notice: 'set OPENAI_API_KEY', paused: false, runnable: false } as OwnAgent]
  const { alarms } = bench(undefined, { agents: () => agents })
  const [broken] = await alarms.list()
  expect(broken).toMatchObject({ kind: 'agent_broken', severity: 'bad', text: 'Set OPENAI_API_KEY', agent_id: 'x' })
  await alarms.dismiss(broken!.id)
  expect(await alarms.list()).toEqual([])
  agents = [{ ...agents[0]!, notice: 'its program is missing' }]
  expect(await alarms.list()).toMatchObject([{ id: broken!.id, text: 'Its program is missing' }])
  agents = [{ ...agents[0]!, paused: true }]
  expect(await alarms.list()).toEqual([])
})

test('an alarm that is not there cannot be dismissed', async () => {
  await expect(bench().alarms.dismiss('work_unpaid-0')).rejects.toMatchObject({ code: 'UNKNOWN_ALARM' })
})

test('T33: that trading has stopped is the first alarm, with why and what to do', async () => {
  const { alarms } = bench(undefined, {
    status: () => ({
      connected_peers: 0,
      agents: { local: 1, known: 1 },
      reachability: { state: 'public', addresses: [], relays: [] },
      trading: { state: 'stopped', code: 'LEDGER_COPIED', reason: 'another node was met', fix: 'stop both nodes' },
    }),
  })
  expect((await alarms.list()).map(({ kind, severity, text }) => [kind, severity, text])).toEqual([
    ['trading_stopped', 'bad', 'Another node was met. Stop both nodes.'],
    ['no_peers', 'warn', expect.any(String)],
  ])
})

test('a change that the database could not write is an alarm until the node knows of none, and again after that', async () => {
  let refused: string | undefined = 'db.example:5432/stoa has a full disk'
  const { alarms } = bench(undefined, {
    status: () => ({
      connected_peers: 1,
      agents: { local: 1, known: 1 },
      reachability: { state: 'public', addresses: [], relays: [] },
      ...(refused !== undefined && { refused_change: refused }),
    }),
  })
  const [alarm] = await alarms.list()
  expect(alarm).toMatchObject({ id: 'change_refused', severity: 'bad', text: expect.stringContaining('stoa doctor') })
  // Where the ledger is, only the operator reads.
  expect(JSON.stringify(alarm)).not.toContain('db.example')
  refused = undefined
  expect(await alarms.list()).toEqual([])
})

test('T15: an RPC of another chain is an alarm that comes back when it was dismissed and it happens anew', async () => {
  let wrong: string | undefined = "the RPC is of chain 84532, this node's network is eip155:8453"
  const { alarms } = bench(undefined, {
    status: () => ({
      connected_peers: 1,
      agents: { local: 1, known: 1 },
      reachability: { state: 'public', addresses: [], relays: [] },
      ...(wrong !== undefined && { chain_wrong: wrong }),
    }),
  })
  expect(await alarms.list()).toMatchObject([
    {
      id: 'chain_wrong',
      kind: 'chain_wrong',
      severity: 'bad',
      text: expect.stringContaining(`The RPC is of chain 84532`),
    },
  ])
  wrong = undefined
  expect(await alarms.list()).toEqual([])
})

test('a count is read once for all who ask at the same time, and again after it could not be read', async () => {
  const store = createAlarmStore(openDatabase({ path: ':memory:' }))
  let reads = 0
  const unpaid = async () => {
    reads += 1
    if (reads === 1) throw new Error('the database is away')
    return store.unpaid()
  }
  const { alarms } = bench(undefined, { store: { ...store, unpaid } })
  const away = await Promise.allSettled([alarms.count(), alarms.count()])
  expect(away.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await Promise.all([alarms.count(), alarms.count()])).toEqual([0, 0])
  expect(reads).toBe(2)
})

const broken = { id: 'x', name: 'Draft', notice: 'set OPENAI_API_KEY', paused: false, runnable: false } as OwnAgent

/** Processes of one ledger that look at their alarms, and the agents of the first. */
async function lookers(count: number) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let [now, agents] = [START, [broken]]
  const database = openDatabase({ path: ':memory:' })
  const shared = { clock: { ...systemClock, now: () => now }, isShared: count > 1 }
  const all = Array.from(
    { length: count },
    (_, n) => bench(database, { ...shared, agents: () => (n === 0 ? agents : []) }).alarms,
  )
  for (const alarms of all) await alarms.start()
  onTestFinished(async () => void (await Promise.all(all.map((alarms) => alarms.stop()))))
  const look = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute++) {
      now += 60_000
      await vi.advanceTimersByTimeAsync(60_000)
      // What the looks read and write takes some turns of the event loop.
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    }
  }
  const change = (changed: OwnAgent[]) => {
    agents = changed
  }
  return { all, look, change }
}

test('D42: an alarm that was dismissed at one process stays away, although it does not hold at the other', async () => {
  const { all, look, change } = await lookers(2)
  const [alarm] = await all[0]!.list()
  await all[0]!.dismiss(alarm!.id)
  await look(30)
  expect(await all[0]!.list()).toEqual([])
  // Once it has ended everywhere for some time, its next occurrence alerts again.
  change([])
  await look(12)
  change([broken])
  expect(await all[0]!.list()).toMatchObject([{ id: alarm!.id }])
})

test('D42: a node alone forgets at its next look what it dismissed and does not hold any more', async () => {
  const { all, look, change } = await lookers(1)
  const [alarm] = await all[0]!.list()
  await all[0]!.dismiss(alarm!.id)
  await look(3)
  expect(await all[0]!.list()).toEqual([])
  change([])
  await look(2)
  change([broken])
  expect(await all[0]!.list()).toMatchObject([{ id: alarm!.id }])
})

test('processes that are configured differently are an alarm, until they are alike or differ in another way', async () => {
  let found: { agents: string[]; budget: boolean; mark: string } | undefined = {
    ...{ agents: ['Echo', 'More'], budget: true, mark: 'one' },
  }
  const { alarms } = bench(undefined, { differences: () => found })
  const [alarm] = await alarms.list()
  expect(alarm).toMatchObject({ id: 'processes_differ', severity: 'warn', text: expect.stringContaining('Echo, More') })
  expect(alarm?.text).toContain('Their budgets differ.')
  await alarms.dismiss('processes_differ')
  expect(await alarms.list()).toEqual([])
  found = { ...found, mark: 'other' }
  expect(await alarms.list()).toMatchObject([{ id: 'processes_differ' }])
  found = undefined
  expect(await alarms.list({ dismissed: true })).toEqual([])
})
