import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Host } from '../p2p/host.ts'
import type { Presence } from './ranking.ts'

/** How long a look at the connections serves. */
const LOOK_MS = 1000

/** Whether sellers answer, as far as connections tell: who is connected does, of others nothing is known. */
export function connectedPresence(deps: {
  host: Pick<Host, 'peers' | 'peerId'>
  clock: Clock
}): (sellerId: string) => Presence | undefined {
  const { host, clock } = deps
  const present = new Map<string, Presence>()
  let lookedAt: UnixMs | undefined

  function look(now: UnixMs): void {
    lookedAt = now
    present.clear()
    for (const { peerId, latencyMs } of host.peers()) present.set(peerId, { online: true, latencyMs })
    present.set(host.peerId, { online: true, latencyMs: 0 })
  }

  return (sellerId) => {
    const now = clock.now()
    if (lookedAt === undefined || Math.abs(now - lookedAt) >= LOOK_MS) look(now)
    return present.get(sellerId)
  }
}
