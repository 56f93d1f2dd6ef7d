import type { RunSlots } from '../agents/run-slots.ts'
import { createLane } from '../lib/lane.ts'
import type { Service } from '../lib/lifecycle.ts'
import { periodic } from '../lib/periodic.ts'
import type { Host } from '../p2p/host.ts'
import type { PeerLimits } from '../protocols/peer-limits.ts'
import type { OwnAgents } from '../selling/hosted-agents.ts'
import { createWorkerStore } from '../store/workers.ts'
import { createWorkDoor } from '../workers/work-door.ts'
import { WorkError } from '../workers/work-error.ts'
import type { WorkerPool } from '../workers/worker-pool.ts'
import { createWorkerRoll, type WorkerRoll } from '../workers/worker-roll.ts'
import type { Foundation } from './foundation.ts'

/** How often listings are compared with the workers that are there, and workers with the ledger. */
const LOOK_EVERY_MS = 15_000

type WorkersDeps = Pick<Foundation, 'database' | 'clock' | 'logger' | 'random' | 'identity'> & {
  host: Host
  workers: WorkerPool
  slots: RunSlots
  selling: { agents: Pick<OwnAgents, 'followWorkers'>; x402: { limits: PeerLimits } }
}

/** Lets workers in, and keeps the agents that they run on the market while they can. */
export function createWorkers(deps: WorkersDeps): { roll: WorkerRoll; doors: Service[] } {
  const { clock, logger, workers: pool, random, host, slots, selling } = deps
  const roll = createWorkerRoll({
    ...{ clock, pool, random, store: createWorkerStore(deps.database), peerId: deps.identity.peerId },
    addresses: () => host.addresses(),
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

  /** Another process may have revoked a worker. */
  async function look(): Promise<void> {
    follow()
    for (const link of pool.links()) {
      if (!(await roll.holds(link.worker.id))) link.cut(new WorkError('REVOKED', 'this worker was revoked'))
    }
  }

  const door = createWorkDoor({
    ...{ clock, logger, roll, pool, limits: selling.x402.limits },
    siteOf: (peerId) => host.siteOf(peerId),
    handle: (...args) => host.handle(...args),
    idle: () => slots.idle(),
  })
  const looking = periodic(
    { name: 'worker looks', firstMs: LOOK_EVERY_MS, everyMs: LOOK_EVERY_MS },
    { work: look, onError: (error) => logger.warn({ err: error }, 'workers could not be compared with the ledger') },
  )
  const stop = () => {
    isStopping = true
    return door.stop()
  }
  return { roll, doors: [{ ...door, stop }, looking] }
}
