import type { Fleet, FleetProcess } from '../../schema/fleet.ts'
import type { Context } from '../command.ts'
import { table } from './market-text.ts'
import { printableLine } from './terminal-text.ts'

const ID_LENGTH = 8
/** A clock that is off by less costs no payment. */
const CLOCK_MS_MAX = 5_000

/** The processes and workers of a seller, and how the process that answers gets on with the database. */
export function fleetLines(fleet: Fleet, context: Context): string[] {
  const { processes, workers, roles } = fleet
  const { dim } = context.style.stdout
  const rolesOf = (id: string) => roles.flatMap(({ name, process }) => (process === id ? name : []))
  return [
    '',
    dim(databaseText(fleet)),
    ...table(
      ['PROCESS', 'STATE', 'VERSION', 'RUNS', 'AGENTS', 'LEASE', 'CLOCK', 'PLACE'],
      processes.map((process) => processCells(process, rolesOf(process.id))),
      context,
    ),
    ...processes.flatMap((process) => differsLine(process, context)),
    ...(workers.length === 0 ? [] : ['', ...workerTable(workers, context)]),
  ]
}

/** Where the ledger is, how long the answering process waits for it, and how far it is behind. */
function databaseText({ database: { engine, server, away }, processes }: Fleet): string {
  if (engine === 'sqlite') return 'ledger: stoa.db'
  if (away !== undefined) return `ledger: PostgreSQL at ${printableLine(server ?? '')} is away. Before, there were:`
  const { read, change, lag_ms: lag = 0 } = processes.find(({ answering }) => answering) ?? {}
  const waits = Object.entries({ read, change }).flatMap(([what, latency]) =>
    latency === undefined ? [] : `${what} ${latency.p50_ms.toFixed(1)} ms (p99 ${latency.p99_ms.toFixed(1)} ms)`,
  )
  return `ledger: PostgreSQL at ${printableLine(server ?? '')}, ${[...waits, `${seconds(lag)} behind the others`].join(', ')}`
}

function processCells(process: FleetProcess, roles: readonly string[]): string[] {
  const { id, answering, state, version, running, agents, lease_seconds: lease, clock_ahead_ms: ahead } = process
  const here = [...(answering ? ['answers here'] : []), ...roles].join(', ')
  return [
    ...[
      id.slice(0, ID_LENGTH),
      state === 'ready' ? 'sells nothing' : state,
      version ?? '',
      `${running}`,
      `${agents.length}`,
    ],
    ...[lease === undefined ? '' : `${lease} s`, clockText(ahead)],
    [process.place, ...(here === '' ? [] : [`(${here})`]), ...process.addresses.slice(0, 1)].join(' '),
  ]
}

/** How a process is configured in another way than the one that answers. */
function differsLine({ place, differs }: FleetProcess, context: Context): string[] {
  if (differs === undefined) return []
  const what = [
    ...(differs.agents.length === 0 ? [] : [`other settings for ${differs.agents.slice(0, 5).join(', ')}`]),
    ...(differs.budget ? ['another budget'] : []),
  ]
  return [context.style.stdout.yellow(printableLine(`${place} has ${what.join(' and ')}: stoa doctor`, 400))]
}

function clockText(aheadMs: number | undefined): string {
  if (aheadMs === undefined) return ''
  return Math.abs(aheadMs) <= CLOCK_MS_MAX ? 'right' : `${aheadMs > 0 ? '+' : '-'}${seconds(Math.abs(aheadMs))}`
}

function workerTable(workers: Fleet['workers'], context: Context): string[] {
  const cells = workers.map(({ id, name, state, running, runs_max: max, agents }) => [
    ...[id, state, state === 'connected' ? `${running} of ${max}` : ''],
    agents.length === 0 ? name : `${name}: ${agents.join(', ')}`,
  ])
  return table(['WORKER', 'STATE', 'RUNS', 'NAME'], cells, context)
}

const seconds = (ms: number) => (ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`)
