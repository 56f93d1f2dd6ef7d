import type { Config } from '../config/config.ts'
import type { Clock } from '../lib/clock.ts'
import { type Finding, fail, findWithin, ok, skip, warn } from '../lib/finding.ts'
import { checkOpenFiles } from '../lib/open-files.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { Diagnosis } from '../schema/diagnosis.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import { nothing, one } from '../store/query.ts'
import { StoreError } from '../store/store-error.ts'
import type { Alarms } from './alarms.ts'
import { checkClock, checkFacilitator, checkRpc, type Surroundings } from './chain-checks.ts'
import type { NodeCondition } from './node-views.ts'

const CHECK_MS_MAX = 4000
/** A paid call waits for several round trips to the database. */
const LATENCY_MS_MAX = 20

type DiagnosisDeps = {
  config: Config
  clock: Clock
  fetch: typeof fetch
  agents(): OwnAgent[]
  condition(): NodeCondition
  status(): Promise<NodeStatus>
  alarms: Pick<Alarms, 'list'>
  /** Where the ledger is, if it is in PostgreSQL, and a change of nothing. */
  server: string | undefined
  database: Pick<LedgerDatabase, 'query' | 'commit'>
}

/** Checks the node with the settings and keys it runs with. Changes nothing. */
export async function diagnose(deps: DiagnosisDeps, signal: AbortSignal): Promise<Diagnosis> {
  const { config, clock, fetch } = deps
  const agents = deps.agents()
  const around: Surroundings = { config, clock, fetch, sells: agents.some(({ price }) => price > 0n) }
  const table: [id: string, title: string, look: (signal: AbortSignal) => Promise<Finding | Finding[]>][] = [
    ['ledger', 'Ledger', async () => ofLedger(deps)],
    ['database', 'Database', () => ofDatabase(deps)],
    ['open_files', 'Open files', async () => checkOpenFiles(deps.condition().open_files?.max)],
    ['agents', 'Agents', async () => ofAgents(agents)],
    ['bootstrap', 'Bootstrap peers', async () => ofPeers(deps)],
    ['rpc', 'Chain RPC', (stop) => checkRpc(around, stop)],
    ['clock', 'Clock', (stop) => checkClock(around, stop)],
    ['facilitator', 'Facilitator', (stop) => checkFacilitator(around, stop)],
    ['settlement', 'Settlement', () => ofSettlement(deps)],
    ['failures', 'Failing agents', () => ofFailures(deps)],
  ]
  const found = await Promise.all(
    table.map(async ([id, title, look]) => {
      const findings = await findWithin(CHECK_MS_MAX, signal, look)
      return findings.map((finding) => ({ id, title, ...finding }))
    }),
  )
  return { checks: found.flat() }
}

function ofLedger({ condition }: DiagnosisDeps): Finding {
  const { trading } = condition()
  if (trading?.state !== 'stopped') return ok('undamaged, and no other node is known to use it')
  return fail(`this node does not trade: ${trading.reason ?? 'see the log'}`, trading.fix ?? 'see the log')
}

/** Reads, and commits a change of nothing: that shows a full disk, and whether the ledger is still held. */
async function ofDatabase({ server, database }: DiagnosisDeps): Promise<Finding> {
  if (server === undefined) return skip('the ledger is in stoa.db')
  try {
    const since = performance.now()
    await database.query(one('SELECT 1 AS one'))
    const ms = performance.now() - since
    await database.commit(nothing(undefined))
    const text = `${server} answers in ${ms.toFixed(ms < 10 ? 1 : 0)} ms and takes changes`
    if (ms <= LATENCY_MS_MAX) return ok(text)
    return warn(`${text}: each paid call waits for several answers`, 'run the node near the database')
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return fail(error.message, 'see docs/operations.md, PostgreSQL; the node goes on when the database is back')
  }
}

function ofAgents(agents: readonly OwnAgent[]): Finding | Finding[] {
  if (agents.length === 0) return skip('none: add an agent with stoa agent register')
  const noticed = agents.filter(({ notice }) => notice !== undefined)
  if (noticed.length === 0) return ok(`${agents.length}, and all can run`)
  const fix = 'change agents.yaml or the environment of the node, then restart the node'
  return noticed.map(({ name, notice, runnable }) => {
    const text = `${name}: ${notice}`
    return runnable ? warn(text, fix) : fail(`${text} (not on the market)`, fix)
  })
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
