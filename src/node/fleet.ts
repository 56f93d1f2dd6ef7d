import type { BudgetRules } from '../buying/budget-rules.ts'
import type { Buyer } from '../buying/buyer.ts'
import { clockTrouble } from '../ledger/clock-difference.ts'
import type { Trading } from '../ledger/trading.ts'
import { CodedError } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { type Periodic, periodic } from '../lib/periodic.ts'
import { thisPlace } from '../lib/place.ts'
import { takeRole } from '../store/ownership.ts'
import type { FleetSight, LedgerProcess, OwnReport, Processes } from '../store/postgres/processes.ts'
import type { WorkerPool } from '../workers/worker-pool.ts'
import { reportOn } from './fleet-report.ts'
import type { Foundation } from './foundation.ts'
import { copiesAmong } from './missing.ts'
import type { Uptime } from './node-views.ts'
import type { Selling } from './selling.ts'

/** Shorter than the lease of a process: what a dead one left is taken over soon after its end. */
const LOOK_EVERY_MS = 3_000

const COPIED =
  'another process of this seller has the same market.key: a data directory was copied while it was in use; stoa doctor says what to do'

export type Fleet = {
  /** Whether this process cleans the ledger up: one of those that share it does. */
  isKeeper(): Promise<boolean>
  /** Tells the others that this process stops. Returns the ids of the agents that they go on selling. */
  leave(): Promise<ReadonlySet<string>>
  /** All processes as this one last saw them. */
  sight(): FleetSight
  /** All processes as they are now. */
  look(): Promise<FleetSight>
  services: readonly Service[]
}

type WatchDeps = {
  processes: Processes
  logger: Logger
  trading: Pick<Trading, 'clockIs' | 'shareFindings'>
  /** What this process says of itself. */
  report(): OwnReport
  /** Goes on with the work of processes that have ended. */
  takeOver(): Promise<void>
  /** Called at each look. */
  seen(sight: FleetSight): void
  /** Called when processes came, went or moved. */
  changed(processes: readonly LedgerProcess[]): void
}

/**
 * The processes of one seller on one ledger. Each work of the ledger belongs to one of them (store/ownership.ts). When
 * one ends, the others go on with its work: the first to change a row owns it. @internal Exported for its test.
 */
export function watchFleet({ processes, logger, trading, report, takeOver, changed, seen }: WatchDeps): Periodic {
  let last: readonly LedgerProcess[] = []
  let known: ReadonlySet<string> | undefined
  const look = async () => {
    trading.clockIs(await processes.report(report()))
    await trading.shareFindings()
    const ended = await processes.endDead()
    // At the first look all ended processes count. One may have ended after this process took over work at its start.
    if (ended.some((id) => known?.has(id) !== true)) {
      // Listeners need not hear of processes that ended before this one began.
      if (known !== undefined) logger.info({}, 'a process of this seller has ended: the others go on with its work')
      await takeOver()
    }
    known = new Set(ended)
    const sight = await processes.sight()
    seen(sight)
    const { alive } = sight
    const isOther = placesOf(alive) !== placesOf(last)
    last = alive
    if (isOther) changed(alive)
  }
  return periodic(
    { name: 'fleet', firstMs: 0, everyMs: LOOK_EVERY_MS },
    { work: look, onError: (err) => logger.warn({ err }, 'the processes of this seller could not be read') },
  )
}

type JoinDeps = Pick<
  Foundation,
  | 'isShared'
  | 'database'
  | 'clock'
  | 'logger'
  | 'host'
  | 'marketHost'
  | 'siblings'
  | 'version'
  | 'feed'
  | 'trading'
  | 'tail'
  | 'latency'
> & {
  uptime: Pick<Uptime, 'ms'>
  budget: BudgetRules
  workers: Pick<WorkerPool, 'links' | 'failing' | 'onChange'>
  selling: Pick<Selling, 'takeOver' | 'registry' | 'x402'>
  buyer: Pick<Buyer, 'takeOver'>
  /** Called after each takeover. */
  taken(): void
}

/**
 * Lets this node work beside the processes that share its ledger, if it is shared.
 *
 * @throws CodedError CLOCK_OFF
 */
export async function joinFleet(deps: JoinDeps): Promise<Fleet> {
  const { isShared, database, clock, logger, siblings, feed, trading, selling, buyer } = deps
  let isDraining = false
  const report = () => ({ ...reportOn({ ...deps, ...selling }), isDraining })
  if (!isShared) {
    const alone = () => sightOfOne(database.process, report(), deps.uptime.ms)
    const never = async () => new Set<string>()
    return { isKeeper: async () => true, leave: never, sight: alone, look: async () => alone(), services: [] }
  }
  const { createProcesses } = await import('../store/postgres/processes.ts')
  const processes = createProcesses(database, clock)
  const trouble = clockTrouble(await processes.aheadMs())
  if (trouble !== undefined) throw new CodedError('CLOCK_OFF', `${trouble.reason}: ${trouble.fix}`)
  let sight: FleetSight = sightOfOne(database.process, report(), 0)
  // The first listings that it signs name the others too.
  siblings.note(await processes.alive())
  async function tell(): Promise<void> {
    await processes.report(report())
    siblings.note(await processes.alive())
  }
  siblings.tellBy(tell)
  let wasCopy = false
  const watch = watchFleet({
    ...{ logger, processes, trading, report },
    async takeOver() {
      await selling.takeOver()
      await buyer.takeOver()
      deps.taken()
      // Too much has changed to name each change, here too.
      feed.reset()
    },
    changed: siblings.note,
    seen(now) {
      sight = now
      siblings.noteLoads(now.alive)
      const isCopy = copiesAmong(now.alive).some(({ id }) => id === database.process)
      if (isCopy && !wasCopy) logger.warn({}, COPIED)
      wasCopy = isCopy
    },
  })
  // The others show a worker, and know who can run its agents, when it has come.
  deps.workers.onChange(watch.soon)
  return {
    // A wrong clock could make everything look old enough to delete.
    isKeeper: async () => !trading.isStopped() && (await takeRole(database, 'housekeeping')),
    async leave() {
      isDraining = true
      // If all processes stop at the same time, the last one finds no other, and delists its agents.
      await tell()
      return siblings.agents()
    },
    sight: () => sight,
    look: () => processes.sight(),
    services: [watch],
  }
}

/** A node alone is a fleet of one, whose ledger nobody else can take. */
function sightOfOne(id: string, report: OwnReport, upMs: number): FleetSight {
  const times = { upMs, leaseMs: Number.POSITIVE_INFINITY, silentMs: 0 }
  return { alive: [{ id, place: thisPlace(), ...times, report: { ...report, aheadMs: 0 } }], ended: [], roles: [] }
}

function placesOf(processes: readonly LedgerProcess[]): string {
  return JSON.stringify(processes.map(({ id, report }) => [id, report?.addresses, report?.agents, report?.isDraining]))
}
