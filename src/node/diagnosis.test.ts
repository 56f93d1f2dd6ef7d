import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { createConfig } from '../config/config.ts'
import { paidSums, payingSums } from '../ledger/channel-sums.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import type { Source } from '../schema/source.ts'
import type { WorkerRecord } from '../schema/worker.ts'
import { openDatabase } from '../store/database.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import type { FleetSight } from '../store/postgres/processes.ts'
import { StoreError } from '../store/store-error.ts'
import { diagnose } from './diagnosis.ts'

type Said = {
  server?: string
  database?: Pick<LedgerDatabase, 'query' | 'commit' | 'process'>
  latency?: () => { refused: StoreError }
  alarms?: Partial<AlarmRecord>[]
  agents?: Partial<OwnAgent>[]
  bootstrap?: string[]
  status?: Partial<NodeStatus>
  sight?: FleetSight
  workers?: Partial<WorkerRecord>[]
  catalogs?: Source[]
}

/** What a node whose facilitator and RPC are away finds, by its id. */
async function found(said: Said) {
  const { alarms = [], agents = [], bootstrap = [], status = {}, server, sight, workers = [] } = said
  const { database = openDatabase({ path: ':memory:' }) } = said
  const config = createConfig({ dataDir: '/data', facilitatorUrl: 'http://127.0.0.1:1', bootstrap })
  const { checks } = await diagnose(
    {
      config,
      clock: new HandClock(),
      fetch: () => Promise.reject(new Error('away')),
      agents: () => agents as OwnAgent[],
      condition: () => ({ connected_peers: 0, ...status }) as NodeStatus,
      status: async () => ({ settlement: { pending: 1, failed: 0 } }) as NodeStatus,
      alarms: { list: async () => alarms as AlarmRecord[] },
      server,
      database,
      ...(said.latency && { latency: said.latency }),
      isShared: sight !== undefined,
      sight: async () => sight ?? { alive: [], ended: [], roles: [] },
      channelTrouble: undefined,
      channelSums: async () => ({ paying: payingSums([]), paid: paidSums([]) }),
      workers: { list: async () => workers as WorkerRecord[] },
      publicDoor: () => undefined,
      catalogs: () => said.catalogs ?? [],
      testDoors: async () => ({ at: '2026-11-24T10:00:00.000Z', tests: [] }),
    },
    AbortSignal.timeout(5_000),
  )
  return (id: string) => checks.find((check) => check.id === id)
}

test('T20: work that is not paid, and settlements that are stuck, are told, with where to look and how to end it', async () => {
  expect((await found({}))('settlement')).toMatchObject({ state: 'ok', text: '1 pending' })
  for (const kind of ['work_unpaid', 'settlement_stuck'] as const) {
    const alarms = [{ id: 'a1', kind, title: '2 payments', text: 'The facilitator refuses them.', amount: '0.5' }]
    expect((await found({ alarms }))('settlement')).toMatchObject({
      state: 'warn',
      text: '2 payments, 0.5 USDC. The facilitator refuses them.',
      fix: expect.stringMatching(/stoa payment list .* stoa alarms dismiss a1/),
    })
  }
})

test('a catalog that failed is told, with when it last answered; one that nobody searched is no fault', async () => {
  const catalog = { url: 'https://a.example', allow_private: false, failures: 0 }
  expect((await found({}))('sources')).toMatchObject({ state: 'skip' })
  const quiet: Source = { name: 'quiet', state: 'unasked', ...catalog }
  const well: Source = { name: 'well', state: 'ok', ...catalog, entries: 3, answered_at: '2026-11-27T10:00:00.000Z' }
  expect((await found({ catalogs: [quiet, well] }))('sources')).toMatchObject({
    state: 'ok',
    text: expect.stringMatching(/^2, of which 1 /),
  })
  const gone: Source = { ...well, name: 'gone', state: 'failed', error: 'it answers with status 500', failures: 2 }
  expect((await found({ catalogs: [quiet, gone] }))('sources')).toMatchObject({
    ...{ state: 'warn', fix: expect.stringContaining('stoa source test gone') },
    text: expect.stringMatching(/gone: it answers with status 500; it last answered at 2026-11-27/),
  })
})

test('T20: a seller whose facilitator is away is told so, with what to do', async () => {
  const of = await found({ agents: [{ name: 'Paid', price: 1_000n, runnable: true }] })
  expect(of('facilitator')).toMatchObject({ state: 'fail', fix: expect.stringContaining('FACILITATOR_URL') })
})

test('T20: bootstrap peers of which none is connected are told, and an agent that cannot run', async () => {
  const notice = 'set OPENAI_API_KEY'
  const of = await found({
    bootstrap: ['/ip4/127.0.0.1/tcp/1/p2p/12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp'],
    agents: [{ name: 'Keyless', price: 1_000n, runnable: false, notice }],
  })
  expect(of('bootstrap')).toMatchObject({ state: 'fail', fix: expect.stringContaining('ports are open') })
  expect(of('agents')).toMatchObject({ state: 'fail', text: `Keyless: ${notice} (not on the market)` })
})

test('an agent whose calls cost less than their transactions is told, unless channels alone pay them', async () => {
  const [free, cheap, dear] = [0n, 999n, 1_000n].map((price) => ({ name: `Costs ${price}`, price, runnable: true }))
  const only = { ...cheap!, name: 'Only', on_channels_only: true as const }
  const of = await found({ agents: [free!, dear!, only] })
  expect(of('agents')).toMatchObject({ state: 'ok', text: '3, and all can run' })
  const text = 'Costs 999: a call costs 0.000999 USDC, and the transaction of one that no channel pays about 0.001 USDC'
  const fix = expect.stringContaining('pricing with per_call and max')
  expect((await found({ agents: [cheap!, dear!] }))('agents')).toMatchObject({ state: 'warn', text, fix })
})

test('an agent that another process runs is on the market', async () => {
  const agents = [{ id: 'counter', name: 'Counter', price: 1_000n, runnable: false, notice: 'no worker is connected' }]
  const report = { version: '1', addresses: [], agents: ['counter'], running: 0, isDraining: false, aheadMs: 0 }
  const other = { id: 'other', place: 'two, process 1', upMs: 1, leaseMs: 20_000, silentMs: 0, report }
  const sight = (alive: FleetSight['alive']) => ({ alive, ended: [], roles: [] })
  expect((await found({ agents, sight: sight([other]) }))('agents')).toMatchObject({ state: 'ok' })
  expect((await found({ agents, sight: sight([]) }))('agents')).toMatchObject({ state: 'fail' })
})

test('T33: a node that has stopped trading says so, with what to do', async () => {
  expect((await found({}))('ledger')).toMatchObject({ state: 'ok' })
  const trading = { state: 'stopped' as const, code: 'LEDGER_COPIED' as const, reason: 'met', fix: 'stop both' }
  expect((await found({ status: { trading } }))('ledger')).toMatchObject({
    state: 'fail',
    text: 'this node does not trade: met',
    fix: 'stop both',
  })
})

test.each([
  [undefined, 'skip', /does not say/],
  [1024, 'ok', /^1024 files/],
  [300, 'warn', /^300 .* needs 1024: it takes fewer connections/],
  [40, 'fail', /^40 .* needs 1024/],
])(
  'T20: a limit of %s open files is told as %s, with how to raise it in a shell and under systemd',
  async (max, state, text) => {
    const open_files = { ...(max !== undefined && { max }), wanted: 1024 }
    const check = (await found({ status: { open_files } }))('open_files')
    expect(check).toMatchObject({ state, text: expect.stringMatching(text) })
    if (state === 'warn' || state === 'fail') expect(check?.fix).toMatch(/`ulimit -n 1024`.*LimitNOFILE=1024/)
  },
)

test('a ledger in PostgreSQL says whether it answers and takes changes', async () => {
  expect((await found({}))('database')).toMatchObject({ state: 'skip', text: 'the ledger is in stoa.db' })
  const server = 'db.example:5432/stoa'
  const there = (await found({ server }))('database')
  expect(there).toMatchObject({
    // On a busy machine it is slow.
    state: expect.stringMatching(/^(ok|warn)$/),
    text: expect.stringMatching(/^db\.example:5432\/stoa answers in .* takes changes/),
  })
  const full = new StoreError('STORE_WRITE_FAILED', 'the database has a full disk: free some space')
  const database = { ...openDatabase({ path: ':memory:' }), commit: () => Promise.reject(full) }
  expect((await found({ server, database }))('database')).toMatchObject({
    state: 'fail',
    text: 'the database has a full disk: free some space',
  })
  // Signs of life find room in their pages.
  const latency = () => ({ refused: full })
  expect((await found({ server, latency }))('database')).toMatchObject({
    state: 'fail',
    text: 'a change was refused within the last minute: the database has a full disk: free some space',
  })
})

test('T16: a disk that is full under stoa.db is told for a minute', async () => {
  const full = new StoreError('STORE_WRITE_FAILED', 'the store could not write: database or disk is full')
  expect((await found({ latency: () => ({ refused: full }) }))('database')).toMatchObject({
    state: 'fail',
    text: 'a change was refused within the last minute: the store could not write: database or disk is full',
    fix: expect.stringContaining('free some space'),
  })
})

test('how far the database is away is the middle of several answers, and its damage is not judged while it is away', async () => {
  let answers = 0
  const database = openDatabase({ path: ':memory:' })
  const slowAtFirst = {
    process: database.process,
    commit: database.commit.bind(database),
    async query<T>(query: Parameters<typeof database.query<T>>[0]): Promise<T> {
      answers += 1
      if (answers <= 2) await new Promise((resolve) => setTimeout(resolve, 60))
      return database.query(query)
    },
  } as Pick<LedgerDatabase, 'query' | 'commit' | 'process'>
  const of = await found({ server: 'db.example:5432/stoa', database: slowAtFirst })
  expect(of('database')).toMatchObject({
    state: 'ok',
    text: expect.stringContaining('db.example:5432/stoa answers in'),
  })
  expect(of('ledger')).toMatchObject({ state: 'ok' })

  const gone = {
    ...slowAtFirst,
    query: () => Promise.reject(new StoreError('STORE_AWAY', 'db.example does not answer')),
  }
  const without = await found({ server: 'db.example:5432/stoa', database: gone })
  expect(without('database')).toMatchObject({ state: 'fail' })
  expect(without('ledger')).toMatchObject({ state: 'skip', text: 'not known: the database is away' })
})

test('a database that answers slowly is told as slow, with how long it takes, and what needs it is still checked', async () => {
  const database = openDatabase({ path: ':memory:' })
  const slowly = <T>(answer: () => Promise<T>): Promise<T> =>
    new Promise<void>((resolve) => setTimeout(resolve, 500)).then(answer)
  const slow = {
    process: database.process,
    query: (query) => slowly(() => database.query(query)),
    commit: (change) => slowly(() => database.commit(change)),
  } as Pick<LedgerDatabase, 'query' | 'commit' | 'process'>
  const sight = { alive: [], ended: [], roles: [] }
  const of = await found({ server: 'db.example:5432/stoa', database: slow, sight })
  expect(of('database')).toMatchObject({
    state: 'warn',
    text: expect.stringMatching(/^db\.example:5432\/stoa answers in \d{3,} ms and takes changes, but is slow/),
    fix: expect.stringContaining('near the database'),
  })
  expect([of('ledger'), of('processes'), of('settlement')].map((check) => check?.state)).toEqual(['ok', 'ok', 'ok'])

  const stuck = { ...slow, commit: () => new Promise<never>(() => {}) }
  const without = await found({ server: 'db.example:5432/stoa', database: stuck, sight })
  expect(without('database')).toMatchObject({ state: 'fail', text: expect.stringContaining('it took no change') })
  expect(without('processes')).toMatchObject({ state: 'ok' })
})
