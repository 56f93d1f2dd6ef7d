import { createLane } from '../lib/lane.ts'
import type { WorkerStore } from '../store/workers.ts'
import { revoked } from './work-error.ts'
import type { WorkerLink } from './worker-link.ts'
import type { WorkerPool } from './worker-pool.ts'

/** Follows in the ledger who may work: other processes of the seller invite and revoke too. */
export interface WorkerLooks {
  /** True if the peer is a worker of this seller, as this process last saw it. */
  knows(peerId: string): boolean
  /** Notes the key of a worker that was let in here. */
  met(peerId: string): void
  cut(link: WorkerLink): void
  /** Reads who may work, and cuts off who may not. @throws StoreError */
  look(): Promise<void>
}

export function createWorkerLooks(store: Pick<WorkerStore, 'list'>, pool: WorkerPool): WorkerLooks {
  const inTurn = createLane()
  let known = new Set<string>()
  /** Keys that came in while the others were read. */
  let fresh = new Set<string>()

  function cut(link: WorkerLink): void {
    link.cut(revoked())
    pool.leave(link)
  }

  async function look(): Promise<void> {
    fresh = new Set()
    // Before the read, so that each of them had been stored by then.
    const links = pool.links()
    const held = (await store.list()).filter(({ revokedAt }) => revokedAt === undefined)
    known = new Set([...held.flatMap((worker) => worker.peerId ?? []), ...fresh])
    const ids = new Set(held.map(({ id }) => id))
    for (const link of links) if (!ids.has(link.worker.id)) cut(link)
  }

  return {
    cut,
    knows: (peerId) => known.has(peerId),
    met(peerId) {
      known.add(peerId)
      fresh.add(peerId)
    },
    look: () => inTurn(look),
  }
}
