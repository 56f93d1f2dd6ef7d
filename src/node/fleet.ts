import type { Buyer } from '../buying/buyer.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import { hasRole } from '../store/ownership.ts'
import type { LedgerProcess, Processes, ProcessReport } from '../store/postgres/processes.ts'
import type { Foundation } from './foundation.ts'
import type { Selling } from './selling.ts'

/** Shorter than the lease of a process: what a dead one left is taken over soon after its end. */
const LOOK_EVERY_MS = 3_000

export type Fleet = {
  /** Whether this process cleans the ledger up: one of those that share it does. */
  isKeeper(): Promise<boolean>
  /** Tells the others that this process stops. Returns the ids of the agents that they go on selling. */
  leave(): Promise<ReadonlySet<string>>
  services: readonly Service[]
}

type WatchDeps = {
  processes: Processes
  logger: Logger
  /** What this process says of itself. */
  report(): Omit<ProcessReport, 'aheadMs'>
  /** Goes on with the work of processes that have ended. */
  takeOver(): Promise<void>
  /** Called when processes came, went or moved. */
  changed(processes: readonly LedgerProcess[]): void
}

/**
 * The processes of one seller on one ledger. Each work of the ledger belongs to one of them (store/ownership.ts). When
 * one ends, the others go on with its work: who changes a row first has it. @internal Exported for its test.
 */
export function watchFleet({ processes, logger, report, takeOver, changed }: WatchDeps): Service {
  let seen: readonly LedgerProcess[] = []
  let known: ReadonlySet<string> = new Set()
  const look = async () => {
    await processes.report(report())
    const ended = await processes.endDead()
    // At the first look all of them count: one may have ended after this process took over what it found at its start.
    if (ended.some((id) => !known.has(id))) {
      logger.info({}, 'a process of this seller has ended: its work goes on here and at the others')
      await takeOver()
    }
    known = new Set(ended)
    const alive = await processes.alive()
    const isOther = placesOf(alive) !== placesOf(seen)
    seen = alive
    if (isOther) changed(alive)
  }
  return periodic(
    { name: 'fleet', firstMs: 0, everyMs: LOOK_EVERY_MS },
    { work: look, onError: (err) => logger.warn({ err }, 'the processes of this seller could not be read') },
  )
}

type JoinDeps = Pick<
  Foundation,
  'isShared' | 'database' | 'clock' | 'logger' | 'host' | 'siblings' | 'version' | 'feed'
> & {
  selling: Pick<Selling, 'takeOver' | 'registry' | 'x402'>
  buyer: Pick<Buyer, 'takeOver'>
}

/** Lets this node work beside the processes that share its ledger, if it is shared. */
export async function joinFleet({ isShared, database, selling, buyer, ...deps }: JoinDeps): Promise<Fleet> {
  if (!isShared) return { isKeeper: async () => true, leave: async () => new Set(), services: [] }
  const { createProcesses } = await import('../store/postgres/processes.ts')
  const { clock, logger, host, siblings, version, feed } = deps
  const { registry, x402 } = selling
  const processes = createProcesses(database, clock)
  let isDraining = false
  const report = () => ({
    ...{ version, isDraining },
    addresses: host.addresses(),
    agents: registry.list().flatMap(({ id, definition, lacks }) => (definition.paused === true || lacks ? [] : id)),
    running: x402.running.size,
  })
  // The first listings that it signs name the others too.
  siblings.note(await processes.alive())
  const watch = watchFleet({
    ...{ logger, processes, report },
    async takeOver() {
      await selling.takeOver()
      await buyer.takeOver()
      // More has changed than can be named, also here.
      feed.reset()
    },
    changed: siblings.note,
  })
  return {
    isKeeper: () => hasRole(database, 'housekeeping'),
    async leave() {
      isDraining = true
      // Of processes that stop at the same time, the one that says so last finds no other.
      await processes.report(report())
      siblings.note(await processes.alive())
      return siblings.agents()
    },
    services: [watch],
  }
}

function placesOf(processes: readonly LedgerProcess[]): string {
  return JSON.stringify(processes.map(({ id, report }) => [id, report?.addresses, report?.agents, report?.isDraining]))
}
