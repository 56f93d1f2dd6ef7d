import type { Registry } from '../agents/registry.ts'
import type { RunSlots } from '../agents/run-slots.ts'
import { createLane } from '../lib/lane.ts'
import type { Service } from '../lib/lifecycle.ts'
import { periodic } from '../lib/periodic.ts'
import type { Host } from '../p2p/host.ts'
import { mergeAddresses } from '../p2p/multiaddrs.ts'
import type { PeerLimits } from '../protocols/peer-limits.ts'
import { SELLER_ADDRESSES_MAX } from '../schema/work.ts'
import type { OwnAgents } from '../selling/hosted-agents.ts'
import type { FleetSight } from '../store/postgres/processes.ts'
import { createWorkerStore } from '../store/workers.ts'
import { createWorkDoor } from '../workers/work-door.ts'
import type { WorkerPool } from '../workers/worker-pool.ts'
import { createWorkerRoll, type WorkerElsewhere, type WorkerRoll } from '../workers/worker-roll.ts'
import type { Fleet } from './fleet.ts'
import type { Foundation } from './foundation.ts'

/** How often listings are compared with the workers that are there, and workers with the ledger. */
const LOOK_EVERY_MS = 15_000

type WorkersDeps = Pick<Foundation, 'database' | 'clock' | 'logger' | 'random' | 'identity' | 'tail' | 'siblings'> & {
  host: Host
  workers: WorkerPool
  slots: RunSlots
  fleet: Pick<Fleet, 'sight' | 'look'>
  drainMs: number
  selling: { agents: Pick<OwnAgents, 'followWorkers'>; registry: Pick<Registry, 'list'>; x402: { limits: PeerLimits } }
}

/** Lets workers in, and keeps the agents that they run on the market while they can. */
export function createWorkers(deps: WorkersDeps): { roll: WorkerRoll; doors: Service[] } {
  const { clock, logger, workers: pool, random, host, slots, selling, fleet } = deps
  const { process } = deps.database
  const addressesIn = (sight: FleetSight) => mergeAddresses([host.addresses(), ...addressesElsewhere(sight, process)])
  const addresses = () => addressesIn(fleet.sight()).slice(0, SELLER_ADDRESSES_MAX)
  const roll = createWorkerRoll({
    ...{ clock, pool, random, store: createWorkerStore(deps.database), peerId: deps.identity.peerId },
    // A worker that loses one process dials the next.
    addresses: async () => addressesIn(await fleet.look()),
    process,
    elsewhere: async () => workersElsewhere(await fleet.look(), process),
  })
  const inTurn = createLane()
  let isDue = false
  let isStopping = false
  const failed = (error: unknown) => logger.error({ err: error }, 'agents that workers run could not be listed anew')

  /** Changes in a short time are followed once. */
  function follow(): void {
    // A stop decides by itself what stays on the market.
    if (isDue || isStopping) return
    isDue = true
    inTurn(() => {
      isDue = false
      return selling.agents.followWorkers()
    }).catch(failed)
  }
  pool.onChange(follow)

  const notRead = (error: unknown) =>
    logger.warn({ err: error }, 'workers could not be compared with the ledger; the node tries again')
  const lookNow = () => void roll.look().catch(notRead)
  // Another process has revoked a worker, or let one in.
  deps.tail.listen({ changed: ({ record }) => record === 'worker' && lookNow(), missed: lookNow })
  // Workers outlive the processes that they were invited by.
  const tellAddresses = () => {
    for (const link of pool.links()) link.tellAddresses(addresses())
  }
  deps.siblings.onAddressesChange(tellAddresses)
  async function look(): Promise<void> {
    follow()
    tellAddresses()
    await roll.look()
  }

  const door = createWorkDoor({
    ...{ clock, logger, roll, pool, addresses, limits: selling.x402.limits },
    siteOf: (peerId) => host.siteOf(peerId),
    hasAgent: (name) => selling.registry.list().some(({ definition }) => definition.worker && definition.name === name),
    handle: (...args) => host.handle(...args),
    idle: () => slots.idle(),
    drainMs: deps.drainMs,
  })
  const looking = periodic(
    { name: 'worker looks', firstMs: LOOK_EVERY_MS, everyMs: LOOK_EVERY_MS },
    { work: look, onError: notRead },
  )
  const stop = () => {
    isStopping = true
    return door.stop()
  }
  return { roll, doors: [{ ...door, stop }, looking] }
}

/** Where the other processes that do not stop are reached. */
function addressesElsewhere({ alive }: FleetSight, process: string): string[][] {
  return alive.flatMap(({ id, report }) => (id === process || report?.isDraining !== false ? [] : [report.addresses]))
}

/** The workers that are connected to other processes, as these have said last. */
function workersElsewhere({ alive }: FleetSight, process: string): WorkerElsewhere[] {
  const others = alive.filter(({ id }) => id !== process)
  return others.flatMap(({ id, report }) => (report?.workers ?? []).map((worker) => ({ ...worker, process: id })))
}
