import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { WorkerRecord } from '../schema/worker.ts'
import type { EndedProcess, FleetSight, LedgerProcess, ProcessReport } from '../store/postgres/processes.ts'
import { checkProcesses, checkWorkers } from './fleet-checks.ts'
import { missingOf } from './missing.ts'

const HOUR_MS = 3_600_000

/** A port of this machine where somebody accepts connections. */
async function openPort(): Promise<number> {
  const server = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as { port: number }).port
}

type Said = Partial<ProcessReport> & Partial<Pick<LedgerProcess, 'place' | 'upMs' | 'silentMs'>>

function processOf(
  id: string,
  { place = `${id}, process 1`, upMs = HOUR_MS, silentMs = 0, ...said }: Said,
): LedgerProcess {
  const plain = { version: '1.0.0', addresses: [], agents: [], running: 0, isDraining: false, aheadMs: 0, schema: 30 }
  return { id, place, upMs, leaseMs: 20_000 - silentMs, silentMs, report: { ...plain, ...said } }
}

/** What is found beside this process. */
async function found(other: Said, own: Said = {}) {
  const alive = [processOf('own', own), processOf('other', other)]
  return check({ alive, ended: [], roles: [] })
}
const check = (sight: FleetSight) => checkProcesses(sight, 'own', AbortSignal.timeout(5_000))

test('processes that are alike and answer are well; so is a process that was always alone', async () => {
  const port = await openPort()
  const addresses = [`/ip4/127.0.0.1/tcp/${port}`]
  const same = { place: 'here, process 2', addresses, definitions: { Echo: 'x' } }
  expect(await found(same, { ...same, place: 'here, process 1' })).toMatchObject([{ state: 'ok' }])
  expect(await check({ alive: [processOf('own', {})], ended: [], roles: [] })).toEqual([
    { state: 'ok', text: 'this process alone uses the ledger' },
  ])
})

test.each<[string, Said, RegExp]>([
  ['is behind', { version: '0.9.0' }, /other, process 1 runs version 0\.9\.0, others run 1\.0\.0/],
  ['knows an older ledger', { schema: 29 }, /made for schema 29 of the ledger, others for 30/],
  ['has another clock', { aheadMs: HOUR_MS }, /clock of other, process 1 is 60 min ahead of the database/],
  [
    'has other agents',
    { definitions: { Echo: 'y', More: 'z' } },
    /other agents than own, process 1: Echo \(other settings\), More \(only there\)/,
  ],
  ['lacks an agent', { definitions: {} }, /other agents than own, process 1: Echo \(not there\)/],
  ['has another budget', { budget: 'b' }, /another budget in its configuration than own, process 1/],
  ['is silent', { silentMs: 15_000 }, /nothing was heard of other, process 1 for 15 s: .* in 5 s/],
  ['lags', { lagMs: 40_000 }, /has not read for 40 s what the others changed/],
  ['announces nothing', { addresses: [] }, /announces no address that others can dial/],
  ['announces its loopback', { addresses: ['/ip4/127.0.0.1/tcp/4001'] }, /announces no address that others can dial/],
])('doctor names a process that %s', async (_what, said, text) => {
  const findings = await found(said, { definitions: { Echo: 'x' }, budget: 'a' })
  expect(findings.map((finding) => finding.text)).toContainEqual(expect.stringMatching(text))
  for (const { state, fix } of findings)
    expect([state, fix]).toEqual([expect.stringMatching(/warn|fail/), expect.any(String)])
})

test('1.10.0 is newer than 1.9.0', async () => {
  const findings = await found({ version: '1.10.0' }, { version: '1.9.0' })
  expect(findings.map(({ text }) => text)).toContain('own, process 1 runs version 1.9.0, others run 1.10.0')
})

test('doctor names a process at whose addresses nobody answers, and one answer is enough', async () => {
  const port = await openPort()
  const closed = '/ip4/127.0.0.1/tcp/1'
  const [place, own] = ['here, process 2', { place: 'here, process 1' }]
  expect(await found({ place, addresses: [closed] }, own)).toMatchObject([
    { state: 'fail', text: 'here, process 2 cannot be reached from here: 127.0.0.1:1 (ECONNREFUSED)' },
  ])
  expect(await found({ place, addresses: [closed, `/ip4/127.0.0.1/tcp/${port}`] }, own)).toMatchObject([
    { state: 'ok' },
  ])
  // Who stops is dialed by nobody.
  expect(await found({ place, isDraining: true }, own)).toMatchObject([{ state: 'ok' }])
})

const lost = (place: string, silentMs: number): EndedProcess => {
  return { id: place, place, agoMs: silentMs - 20_000, isLost: true, silentMs, report: undefined }
}

test('a process that was lost is missing until one starts on its machine', async () => {
  const alive = [processOf('own', { place: 'a, process 1' })]
  const ended = [lost('b, process 1', 600_000)]
  expect(missingOf({ alive, ended, roles: [] })).toEqual(ended)
  expect(await check({ alive, ended, roles: [] })).toMatchObject([
    { state: 'warn', text: 'b, process 1 was lost 10 min ago and has not come back' },
  ])
  const back = processOf('b', { place: 'b, process 9', upMs: 590_000 })
  expect(missingOf({ alive: [...alive, back], ended, roles: [] })).toEqual([])
  // One that was there before replaces nobody, and neither does one that replaces another.
  const before = processOf('b', { place: 'b, process 9', upMs: 700_000 })
  expect(missingOf({ alive: [...alive, before], ended, roles: [] })).toEqual(ended)
  expect(missingOf({ alive: [back], ended: [...ended, lost('b, process 2', 650_000)], roles: [] })).toHaveLength(1)
  expect(missingOf({ alive, ended: [{ ...ended[0]!, isLost: false }], roles: [] })).toEqual([])
})

type Was = Pick<EndedProcess, 'place'> & { home: string; ago: number; addresses?: string[]; isLost?: boolean }
/** Processes of known data directories, by when they were heard of last, or have started. */
const missing = (ended: Was[], alive: (Said & { home: string })[]) => {
  const gone = ended.map(({ place, ago, isLost = true, home, addresses = [] }) => {
    const { report } = processOf('x', { home, addresses })
    return { id: `${home}${ago}`, place, agoMs: ago - 20_000, isLost, silentMs: ago, report }
  })
  const there = alive.map((one, index) => processOf(`${index}`, one))
  return missingOf({ alive: there, ended: gone, roles: [] }).map(({ id }) => id)
}

test('a machine is known by its data directory, and not by its name', () => {
  const lostOne = { place: 'box, process 7', home: 'one', ago: 600_000 }
  // Another machine of the same name, that has restarted or is new, replaces nobody.
  const two = { place: 'box, process 7', home: 'two', upMs: 100_000 }
  expect(missing([lostOne], [two])).toEqual(['one600000'])
  expect(missing([{ ...lostOne, ...two, ago: 200_000, isLost: false }, lostOne], [two])).toEqual(['one600000'])
  // It comes back under another name.
  const back = { place: '0a1b2c, process 1', home: 'one', upMs: 500_000 }
  expect(missing([lostOne], [two, back])).toEqual([])
  expect(missing([lostOne], [{ ...back, upMs: 700_000 }])).toEqual(['one600000'])
  // It is lost again and again, and back once; or it was stopped at last.
  const again = { ...lostOne, ago: 400_000 }
  expect(missing([again, lostOne], [{ ...back, upMs: 300_000 }])).toEqual([])
  expect(missing([again, lostOne], [])).toEqual(['one400000'])
  expect(missing([{ ...again, isLost: false }, lostOne], [])).toEqual([])
})

test('a new data directory replaces a lost one at the same public address, and not at a private one', () => {
  const addresses = ['/ip4/203.0.114.7/tcp/4001/p2p/12D3', '/ip4/172.18.0.3/tcp/4001/p2p/12D3']
  const lostOne = { place: '0a1b2c, process 1', home: 'one', ago: 600_000, addresses }
  const fresh = { place: '3d4e5f, process 1', home: 'new', upMs: 100_000 }
  expect(missing([lostOne], [{ ...fresh, addresses: addresses.slice(0, 1) }])).toEqual([])
  expect(missing([lostOne], [{ ...fresh, addresses: addresses.slice(1) }])).toEqual(['one600000'])
  const relayed = ['/ip4/203.0.114.7/tcp/4001/p2p/12D3relay/p2p-circuit/p2p/12D3']
  expect(missing([lostOne], [{ ...fresh, addresses: relayed }])).toEqual(['one600000'])
  // Whoever comes back to its own data directory replaces no other.
  const upgraded = { ...lostOne, home: 'new', ago: 150_000, isLost: false }
  expect(missing([upgraded, lostOne], [{ ...fresh, addresses }])).toEqual(['one600000'])
})

test('doctor names a worker that is not connected, and one that fails or whose agents match none of the seller', () => {
  const worker = (fields: Partial<WorkerRecord>) => ({ id: 'w', name: 'gpu-1', agents: [], ...fields }) as WorkerRecord
  const look = (workers: WorkerRecord[]) => checkWorkers(workers, new Set(['Painter']))
  expect(look([worker({ state: 'revoked' }), worker({ state: 'invited' })])).toMatchObject([{ state: 'skip' }])
  expect(look([worker({ state: 'connected' })])).toMatchObject([{ state: 'ok' }])
  expect(look([worker({ state: 'connected' }), worker({ state: 'away', id: 'x', name: 'gpu-2' })])).toEqual([
    {
      state: 'warn',
      text: expect.stringContaining('gpu-2 is not connected'),
      fix: expect.stringContaining('stoa worker revoke x'),
    },
  ])
  expect(look([worker({ state: 'connected', agents: ['Painter'] })])).toMatchObject([{ state: 'ok' }])
  const failing = { agents: ['Painter'], failing: ['Painter'] }
  expect(look([worker({ state: 'connected', ...failing })])).toMatchObject([
    { state: 'warn', text: expect.stringContaining('gpu-1 fails its tasks of Painter') },
  ])
  expect(look([worker({ state: 'connected', agents: ['Painter', 'Paintr'] })])).toMatchObject([
    {
      state: 'warn',
      text: expect.stringContaining('gpu-1 offers Paintr: no agent'),
      fix: expect.stringContaining('worker: true'),
    },
  ])
})

test('processes on copies of one data directory are told, and one that was killed and started again is not', async () => {
  const copy = await found({ home: 'h', upMs: 60_000 }, { home: 'h' })
  expect(copy).toContainEqual(
    expect.objectContaining({
      state: 'fail',
      text: 'own, process 1 and other, process 1 run on copies of one data directory: they have the same market.key',
    }),
  )
  const texts = async (other: Said, own: Said) => (await found(other, own)).map(({ text }) => text).join()
  // The one before was last heard of 12 s ago, and this one began 5 s ago.
  expect(await texts({ home: 'h', silentMs: 12_000 }, { home: 'h', upMs: 5_000 })).not.toContain('copies')
  expect(await texts({ home: 'h' }, { home: 'i' })).not.toContain('copies')
  expect(await texts({}, {})).not.toContain('copies')
})
