import { WORKER_MODEL } from '../agents/worker-agent.ts'
import type { Config } from '../config/config.ts'
import type { Clock } from '../lib/clock.ts'
import { type Finding, fail, findWithin, ok, skip, warn } from '../lib/finding.ts'
import { checkOpenFiles } from '../lib/open-files.ts'
import { within } from '../lib/wait.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { Diagnosis } from '../schema/diagnosis.ts'
import type { DoorTests } from '../schema/doors.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import type { LedgerLatency } from '../store/latency.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import type { FleetSight } from '../store/postgres/processes.ts'
import { nothing, one } from '../store/query.ts'
import { StoreError } from '../store/store-error.ts'
import type { WorkerRoll } from '../workers/worker-roll.ts'
import type { Alarms } from './alarms.ts'
import { checkClock, checkFacilitator, checkRpc, type Surroundings } from './chain-checks.ts'
import { type ChannelChecksDeps, checkChannels } from './channel-checks.ts'
import { findingsOf } from './door-tests.ts'
import { checkProcesses, checkWorkers } from './fleet-checks.ts'
import type { NodeCondition } from './node-views.ts'
import { checkPublicDoor, type PublicDoorState } from './public-checks.ts'
import { soldByOthers } from './siblings.ts'

const CHECK_MS_MAX = 4000
/** For a database that does not answer at all. Reads wait longer than whoever asks for a diagnosis. */
const DATABASE_MS_MAX = 2500
/** A paid call waits for several round trips to the database. */
const LATENCY_MS_MAX = 20
/** Answers of the database that are timed. */
const SAMPLES = 7

const START_WORKER =
  'run stoa worker on a machine whose agents.yaml has an agent of this name; stoa worker invite makes its join token'

type DiagnosisDeps = Omit<ChannelChecksDeps, 'config' | 'alarms'> & {
  config: Config
  clock: Clock
  fetch: typeof fetch
  agents(): OwnAgent[]
  condition(): NodeCondition
  status(): Promise<NodeStatus>
  alarms: Pick<Alarms, 'list'>
  /** Where the ledger is, if it is in PostgreSQL, and a change of nothing. */
  server: string | undefined
  database: Pick<LedgerDatabase, 'query' | 'commit' | 'process'>
  latency?(): Pick<LedgerLatency, 'refused'> | undefined
  isShared: boolean
  /** The processes of this seller as they are now. */
  sight(): Promise<FleetSight>
  workers: Pick<WorkerRoll, 'list'>
  /** Undefined: nobody buys over HTTP. */
  publicDoor(): PublicDoorState | undefined
  testDoors(): Promise<DoorTests>
}

/** Checks the node with the settings and keys it runs with. Changes nothing. */
export async function diagnose(deps: DiagnosisDeps, signal: AbortSignal): Promise<Diagnosis> {
  const { config, clock, fetch } = deps
  const agents = deps.agents()
  const around: Surroundings = { config, clock, fetch, sells: agents.some(({ price }) => price > 0n) }
  const database = ofDatabase(deps)
  type Look = (signal: AbortSignal) => Promise<Finding | Finding[]>
  /** A check that needs the ledger has nothing to say while the database is away. */
  const there = (look: Look): Look => {
    return async (stop) => ((await database).state === 'fail' ? skip('not known: the database is away') : look(stop))
  }
  const table: [id: string, title: string, look: Look][] = [
    ['ledger', 'Ledger', async () => ofLedger(deps, (await database).state === 'fail')],
    ['database', 'Database', () => database],
    ['processes', 'Processes', there((stop) => ofProcesses(deps, stop))],
    [
      'workers',
      'Workers',
      there(async () => checkWorkers(await deps.workers.list(), namesOf(agents.filter(runsOnWorkers)))),
    ],
    ['open_files', 'Open files', async () => checkOpenFiles(deps.condition().open_files?.max)],
    ['agents', 'Agents', there(async () => ofAgents(agents, await soldElsewhere(deps)))],
    ['bootstrap', 'Bootstrap peers', async () => ofPeers(deps)],
    ['public', 'Public listener', async () => checkPublicDoor(deps.publicDoor())],
    ['addresses', 'Public addresses', async () => findingsOf(await deps.testDoors())],
    ['rpc', 'Chain RPC', (stop) => checkRpc(around, stop)],
    ['clock', 'Clock', (stop) => checkClock(around, stop)],
    ['facilitator', 'Facilitator', (stop) => checkFacilitator(around, stop)],
    ['settlement', 'Settlement', there(() => ofSettlement(deps))],
    ['channels', 'Payment channels', there((stop) => checkChannels(deps, stop))],
    ['failures', 'Failing agents', there(() => ofFailures(deps))],
  ]
  const found = await Promise.all(
    table.map(async ([id, title, look]) => {
      const findings = await findWithin(CHECK_MS_MAX, signal, look)
      return findings.map((finding) => ({ id, title, ...finding }))
    }),
  )
  return { checks: found.flat() }
}

function ofLedger({ condition }: DiagnosisDeps, isAway: boolean): Finding {
  const { trading } = condition()
  if (trading?.state !== 'stopped' && isAway) return skip('not known: the database is away')
  if (trading?.state !== 'stopped') return ok('undamaged, and no other node is known to use it')
  return fail(`this node does not trade: ${trading.reason ?? 'see the log'}`, trading.fix ?? 'see the log')
}

/** Reads, and commits a change of nothing: that shows whether the ledger is still held. What needs room shows a full disk. */
async function ofDatabase({ server, database, latency }: DiagnosisDeps): Promise<Finding> {
  if (server === undefined) return skip('the ledger is in stoa.db')
  const fix = 'see docs/operations.md, PostgreSQL; the node goes on when the database is back'
  try {
    let ms = 0
    const looked = async () => {
      ms = await medianMs(() => database.query(one('SELECT 1 AS one')))
      await database.commit(nothing(undefined))
    }
    if (!(await within(DATABASE_MS_MAX, looked()))) {
      return fail(`${server} is away: no answer within ${DATABASE_MS_MAX / 1000} s`, fix)
    }
    const refused = latency?.()?.refused
    if (refused !== undefined) return fail(`a change was refused within the last minute: ${refused.message}`, fix)
    const text = `${server} answers in ${ms.toFixed(ms < 10 ? 1 : 0)} ms and takes changes`
    if (ms <= LATENCY_MS_MAX) return ok(text)
    return warn(`${text}: each paid call waits for several answers`, 'run the node near the database')
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return fail(error.message, fix)
  }
}

/** One answer may have waited for a busy process, or for a new connection. */
async function medianMs(ask: () => Promise<unknown>): Promise<number> {
  const taken: number[] = []
  while (taken.length < SAMPLES) {
    const since = performance.now()
    await ask()
    taken.push(performance.now() - since)
  }
  return taken.sort((a, b) => a - b)[Math.floor(SAMPLES / 2)]!
}

async function ofProcesses({ isShared, sight, database }: DiagnosisDeps, signal: AbortSignal): Promise<Finding[]> {
  if (!isShared) return [skip('one: the ledger is not shared')]
  return checkProcesses(await sight(), database.process, signal)
}

/** The ids of the agents that other processes of this seller sell. */
async function soldElsewhere({ isShared, sight, database }: DiagnosisDeps): Promise<ReadonlySet<string>> {
  if (!isShared) return new Set()
  return soldByOthers((await sight()).alive, database.process)
}

function ofAgents(agents: readonly OwnAgent[], elsewhere: ReadonlySet<string>): Finding | Finding[] {
  if (agents.length === 0) return skip('none: add an agent with stoa agent register')
  const noticed = agents.filter(({ notice }) => notice !== undefined)
  if (noticed.length === 0) return ok(`${agents.length}, and all can run`)
  // A worker, for example, is connected to one process.
  const bySibling = noticed.filter(({ id, runnable }) => !runnable && elsewhere.has(id))
  if (bySibling.length === noticed.length) return ok(`${agents.length}, of which others run ${bySibling.length}`)
  const fix = 'change agents.yaml or the environment of the node, then restart the node'
  const alone = noticed.filter((agent) => !bySibling.includes(agent))
  return alone.map((agent) => {
    const { name, notice, runnable } = agent
    const text = `${name}: ${notice}`
    if (runsOnWorkers(agent)) return fail(`${text} (not on the market)`, START_WORKER)
    return runnable ? warn(text, fix) : fail(`${text} (not on the market)`, fix)
  })
}

function runsOnWorkers({ runs }: OwnAgent): boolean {
  return runs === WORKER_MODEL
}

function namesOf(agents: readonly OwnAgent[]): ReadonlySet<string> {
  return new Set(agents.map(({ name }) => name))
}

function ofPeers({ config, condition }: DiagnosisDeps): Finding {
  const { connected_peers: count } = condition()
  if (count > 0) return ok(`${count} ${count === 1 ? 'peer' : 'peers'} connected`)
  const { bootstrap, mdns, publicDht } = config.p2p
  if (bootstrap.length > 0) {
    const fix = 'check that they are running, that their ports are open, and that the addresses are right'
    return fail(`none of the ${bootstrap.length} bootstrap peers is connected`, fix)
  }
  const looked = [...(publicDht ? ['in the public DHT'] : []), ...(mdns ? ['on the local network'] : [])]
  const fix = 'restart the node with --bootstrap <multiaddr>: stoa status on another node shows its address'
  if (looked.length === 0) return fail('none, and the node does not look for peers', fix)
  return warn(`none yet; the node looks ${looked.join(' and ')}`, fix)
}

/** Reads the alarms. Dismissed alarms are known and not reported. */
async function ofSettlement({ status, alarms }: DiagnosisDeps): Promise<Finding | Finding[]> {
  const unpaid = (await alarms.list()).filter(({ kind }) => kind === 'work_unpaid' || kind === 'settlement_stuck')
  if (unpaid.length === 0) return ok(`${(await status()).settlement.pending} pending`)
  return unpaid.map(({ id, title, text, amount }) => {
    return warn(
      `${title}, ${amount} USDC. ${text}`,
      `stoa payment list shows the payments; stoa alarms dismiss ${id} hides this warning`,
    )
  })
}

async function ofFailures({ alarms }: DiagnosisDeps): Promise<Finding | Finding[]> {
  const failing = (await alarms.list()).filter(({ kind }) => kind === 'agent_failing')
  if (failing.length === 0) return ok('none')
  return failing.map(({ id, title, text }) => warn(title, `${text} stoa alarms dismiss ${id} hides this warning`))
}
