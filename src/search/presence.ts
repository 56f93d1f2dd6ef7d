import { randomInt } from 'node:crypto'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import { periodic } from '../lib/periodic.ts'
import type { Host } from '../p2p/host.ts'
import type { Presence } from './ranking.ts'

export type PresenceDeps = {
  host: Pick<Host, 'peers' | 'peerId' | 'probe'>
  clock: Clock
  /** Where a listing says that its seller is; undefined once it is off the market. */
  addressesOf(listingId: string): readonly string[] | undefined
}

/** Whether sellers answer: those connected do, and those that were looked for are asked now and then, never paid. */
export interface Presences {
  /** A look-up. Whoever is looked up is asked in its turn, at the addresses of the listing. */
  of(sellerId: string, listingId: string): Presence | undefined
  /** Asks those that are due, a few; its service does so regularly. */
  probe(): Promise<void>
  readonly service: Service
}

/** How long a look at the connections serves. */
const LOOK_MS = 1000
const PROBE_EVERY_MS = 4000
const PROBES_AT_ONCE_MAX = 4
const PROBE_TIMEOUT_MS = 10_000
/** Sellers that are looked after, those looked for last. Somebody nobody looks for costs nothing. */
const SELLERS_MAX = 2000
const LOOKED_FOR_MS = 30 * 60 * 1000
/** Sellers that one search, or several of the same second, put on the list: their listings say where they are dialed (D52). */
const NEW_PER_LOOK_MAX = 16
/**
 * The presence interval: an answer counts for so long. A seller that was killed is shown online no longer than that after
 * its last answer.
 */
export const PRESENCE_MS = 60_000
/** A seller that answered is asked again after half of this up to all of it. */
const ONLINE_AGAIN_MS = 45_000
/** One that does not answer is asked again later each time; the first time soon. */
const OFFLINE_AGAIN = { firstMs: 15_000, mostMs: 30 * 60 * 1000 }
/** One lost answer is nobody's absence. */
const FAILURES_MIN = 2

type Seller = {
  listingId: string
  soughtAt: UnixMs
  presence?: Presence
  /** When it last answered. */
  answeredAt?: UnixMs
  failures: number
  dueAt: UnixMs
}

export function createPresences({ host, clock, addressesOf }: PresenceDeps): Presences {
  const connected = new Map<string, Presence>()
  /** By peer id, the one looked for last at the end. */
  const sellers = new Map<string, Seller>()
  let lookedAt: UnixMs | undefined
  let newInLook = 0

  function look(now: UnixMs): void {
    if (lookedAt !== undefined && Math.abs(now - lookedAt) < LOOK_MS) return
    lookedAt = now
    newInLook = 0
    connected.clear()
    for (const { peerId, latencyMs } of host.peers()) connected.set(peerId, { online: true, latencyMs })
    connected.set(host.peerId, { online: true, latencyMs: 0 })
  }

  function of(sellerId: string, listingId: string): Presence | undefined {
    const now = clock.now()
    look(now)
    const present = connected.get(sellerId)
    if (present !== undefined) return present
    const known = sellers.get(sellerId)
    if (known === undefined && ++newInLook > NEW_PER_LOOK_MAX) return undefined
    const seller: Omit<Seller, 'listingId' | 'soughtAt'> = known ?? { failures: 0, dueAt: now }
    sellers.delete(sellerId)
    sellers.set(sellerId, { ...seller, listingId, soughtAt: now })
    if (sellers.size > SELLERS_MAX) sellers.delete(sellers.keys().next().value as string)
    const isStale = seller.presence?.online === true && now - (seller.answeredAt ?? 0) >= PRESENCE_MS
    return isStale ? undefined : seller.presence
  }

  async function probe(): Promise<void> {
    const now = clock.now()
    look(now)
    for (const [id, { soughtAt }] of sellers) if (now - soughtAt > LOOKED_FOR_MS) sellers.delete(id)
    // Alone, this node learns nothing of others: it is itself that cannot be reached.
    if (connected.size < 2) return
    const due = [...sellers].filter(([id, { dueAt }]) => dueAt <= now && !connected.has(id))
    // Those nothing is known of, then those looked for last.
    const rank = ([, { presence, soughtAt }]: [string, Seller]) => (presence === undefined ? 1e15 : 0) + soughtAt
    const next = due.toSorted((a, b) => rank(b) - rank(a)).slice(0, PROBES_AT_ONCE_MAX)
    await Promise.all(next.map(([id, seller]) => ask(id, seller)))
  }

  async function ask(peerId: string, { listingId, failures }: Seller): Promise<void> {
    const addrs = addressesOf(listingId)
    if (addrs === undefined) {
      sellers.delete(peerId)
      return
    }
    let found: Partial<Seller>
    try {
      const latencyMs = await host.probe({ peerId, addrs }, AbortSignal.timeout(PROBE_TIMEOUT_MS))
      const now = clock.now()
      const presence = { online: true, latencyMs }
      found = { presence, answeredAt: now, failures: 0, dueAt: now + jittered(ONLINE_AGAIN_MS) }
    } catch {
      const again = Math.min(OFFLINE_AGAIN.firstMs * 2 ** failures, OFFLINE_AGAIN.mostMs)
      const presence = failures + 1 < FAILURES_MIN ? sellers.get(peerId)?.presence : { online: false }
      found = { ...(presence && { presence }), failures: failures + 1, dueAt: clock.now() + jittered(again) }
    }
    const seller = sellers.get(peerId)
    // In its place: nobody has looked for it by this.
    if (seller !== undefined) Object.assign(seller, found)
  }

  const service = periodic(
    { name: 'presence', firstMs: PROBE_EVERY_MS, everyMs: PROBE_EVERY_MS },
    { work: probe, onError: () => {} },
  )
  return { of, probe, service }
}

function jittered(ms: number): number {
  return ms / 2 + randomInt(Math.ceil(ms / 2) + 1)
}
