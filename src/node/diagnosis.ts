import { WORKER_MODEL } from '../agents/worker-agent.ts'
import type { Config } from '../config/config.ts'
import type { Clock } from '../lib/clock.ts'
import { type Finding, fail, findWithin, ok, skip, warn } from '../lib/finding.ts'
import { checkOpenFiles } from '../lib/open-files.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { Diagnosis } from '../schema/diagnosis.ts'
import type { DoorTests } from '../schema/doors.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import type { Source } from '../schema/source.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import type { FleetSight } from '../store/postgres/processes.ts'
import type { WorkerRoll } from '../workers/worker-roll.ts'
import type { Alarms } from './alarms.ts'
import { checkCatalogs } from './catalog-checks.ts'
import { checkClock, checkFacilitator, checkRpc, type Surroundings } from './chain-checks.ts'
import { type ChannelChecksDeps, checkChannels } from './channel-checks.ts'
import { type DatabaseCheckDeps, lookAtDatabase } from './database-check.ts'
import { findingsOf } from './door-tests.ts'
import { checkProcesses, checkWorkers } from './fleet-checks.ts'
import type { NodeCondition } from './node-views.ts'
import { checkPrices } from './price-checks.ts'
import { checkPublicDoor, type PublicDoorState } from './public-checks.ts'
import { soldByOthers } from './siblings.ts'

const CHECK_MS_MAX = 4000

const START_WORKER =
  'run stoa worker on a machine whose agents.yaml has an agent of this name; stoa worker invite makes its join token'

type DiagnosisDeps = Omit<ChannelChecksDeps, 'config' | 'alarms' | 'agents'> &
  DatabaseCheckDeps & {
    config: Config
    clock: Clock
    fetch: typeof fetch
    agents(): OwnAgent[]
    condition(): NodeCondition
    status(): Promise<NodeStatus>
    alarms: Pick<Alarms, 'list'>
    database: Pick<LedgerDatabase, 'process'>
    isShared: boolean
    /** The processes of this seller as they are now. */
    sight(): Promise<FleetSight>
    workers: Pick<WorkerRoll, 'list'>
    /** Undefined: nobody buys over HTTP. */
    publicDoor(): PublicDoorState | undefined
    testDoors(): Promise<DoorTests>
    /** The catalogs of config.yaml. */
    catalogs(): readonly Source[]
  }

/** Checks the node with the settings and keys it runs with. Changes nothing. */
export async function diagnose(deps: DiagnosisDeps, signal: AbortSignal): Promise<Diagnosis> {
  const { config, clock, fetch } = deps
  const agents = deps.agents()
  const around: Surroundings = { config, clock, fetch, sells: agents.some(({ price }) => price > 0n) }
  const { isThere, finding: database } = lookAtDatabase(deps)
  type Look = (signal: AbortSignal) => Promise<Finding | Finding[]>
  /** A check that needs the ledger has nothing to say while the database is away. One that is slow leaves it time. */
  const there = (look: Look): Look => {
    return async (stop) => ((await isThere) ? look(stop) : skip('not known: the database is away'))
  }
  let alarms: Promise<AlarmRecord[]> | undefined
  /** Read once, since each reading asks the ledger several times. */
  const listed = () => {
    alarms ??= deps.alarms.list()
    return alarms
  }
  const table: [id: string, title: string, look: Look][] = [
    ['ledger', 'Ledger', async () => ofLedger(deps, !(await isThere))],
    ['database', 'Database', () => database],
    ['processes', 'Processes', there((stop) => ofProcesses(deps, stop))],
    [
      'workers',
      'Workers',
      there(async () => checkWorkers(await deps.workers.list(), namesOf(agents.filter(runsOnWorkers)))),
    ],
    ['open_files', 'Open files', async () => checkOpenFiles(deps.condition().open_files?.max)],
    ['agents', 'Agents', there(async () => withPrices(ofAgents(agents, await soldElsewhere(deps)), agents))],
    ['bootstrap', 'Bootstrap peers', async () => ofPeers(deps)],
    ['public', 'Public listener', async () => checkPublicDoor(deps.publicDoor(), config.public)],
    ['addresses', 'Public addresses', async () => findingsOf(await deps.testDoors())],
    ['sources', 'Catalogs', async () => checkCatalogs(deps.catalogs())],
    ['rpc', 'Chain RPC', (stop) => checkRpc(around, stop)],
    ['clock', 'Clock', (stop) => checkClock(around, stop)],
    ['facilitator', 'Facilitator', (stop) => checkFacilitator(around, stop)],
    ['settlement', 'Settlement', there(() => ofSettlement(deps, listed()))],
    ['channels', 'Payment channels', there((stop) => checkChannels(deps, stop))],
    ['failures', 'Failing agents', there(() => ofFailures(listed()))],
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

/** What is well need not be said beside what is not. */
function withPrices(found: Finding | Finding[], agents: readonly OwnAgent[]): Finding | Finding[] {
  const prices = checkPrices(agents)
  if (prices.length === 0) return found
  return [...[found].flat().filter(({ state }) => state !== 'ok'), ...prices]
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
async function ofSettlement({ status }: DiagnosisDeps, alarms: Promise<AlarmRecord[]>): Promise<Finding | Finding[]> {
  const [{ settlement }, found] = await Promise.all([status(), alarms])
  const unpaid = found.filter(({ kind }) => kind === 'work_unpaid' || kind === 'settlement_stuck')
  if (unpaid.length === 0) return ok(`${settlement.pending} pending`)
  return unpaid.map(({ id, title, text, amount }) => {
    return warn(
      `${title}, ${amount} USDC. ${text}`,
      `stoa payment list shows the payments; stoa alarms dismiss ${id} hides this warning`,
    )
  })
}

async function ofFailures(alarms: Promise<AlarmRecord[]>): Promise<Finding | Finding[]> {
  const failing = (await alarms).filter(({ kind }) => kind === 'agent_failing')
  if (failing.length === 0) return ok('none')
  return failing.map(({ id, title, text }) => warn(title, `${text} stoa alarms dismiss ${id} hides this warning`))
}
