import { BoundedMap } from '../lib/bounded-map.ts'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import { periodic } from '../lib/periodic.ts'
import { backoffMs, halfRandom } from '../lib/retry.ts'
import type { Host } from '../p2p/host.ts'
import type { Presence } from './ranking.ts'

type PresenceDeps = {
  host: Pick<Host, 'peers' | 'peerId' | 'probe'>
  clock: Clock
  /** Addresses of the seller in this listing, or undefined if the listing has left the market. */
  addressesOf(listingId: string): readonly string[] | undefined
}

/**
 * Tracks which sellers answer. A connected seller counts as online. Sellers that somebody looked up are probed from
 * time to time, without payment.
 */
export interface Presences {
  /** A lookup in memory. It also queues the seller for a probe at the addresses of the listing. */
  of(sellerId: string, listingId: string): Presence | undefined
  /** Probes a few of the sellers that are due. `service` calls it regularly. */
  probe(): Promise<void>
  readonly service: Service
}

/** How long one reading of the connections is reused. */
const LOOK_MS = 1000
const PROBE_EVERY_MS = 4000
const PROBES_AT_ONCE_MAX = 4
const PROBE_TIMEOUT_MS = 10_000
/** Sellers tracked. Beyond it the one looked up longest ago is dropped, so that memory stays bounded. */
const SELLERS_MAX = 2000
const LOOKED_FOR_MS = 30 * 60 * 1000
/**
 * Sellers that the searches of one second can add. Listings decide where a seller is dialed, so they must not cause
 * many dials (D52).
 */
const NEW_PER_LOOK_MAX = 16
/** How long an answer counts. A seller that was killed is shown as online at most this long after its last answer. */
const PRESENCE_MS = 60_000
/** A seller that answered is probed again after 50 to 100 % of this time. */
const ONLINE_AGAIN_MS = 45_000
/** A seller that does not answer is probed after 15 s at first, then ever later, up to 30 min. */
const OFFLINE_AGAIN = { firstMs: 15_000, mostMs: 30 * 60 * 1000 }
/** Failed probes before a seller counts as offline. One lost answer proves nothing. */
const FAILURES_MIN = 2

type Seller = {
  listingId: string
  soughtAt: UnixMs
  presence?: Presence
  answeredAt?: UnixMs
  failures: number
  dueAt: UnixMs
}

export function createPresences({ host, clock, addressesOf }: PresenceDeps): Presences {
  const connected = new Map<string, Presence>()
  /** By peer id, the latest lookup last. */
  const sellers = new BoundedMap<string, Seller>(SELLERS_MAX)
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
    sellers.set(sellerId, { ...seller, listingId, soughtAt: now })
    const isStale = seller.presence?.online === true && now - (seller.answeredAt ?? 0) >= PRESENCE_MS
    return isStale ? undefined : seller.presence
  }

  async function probe(): Promise<void> {
    const now = clock.now()
    look(now)
    for (const [id, { soughtAt }] of sellers) if (now - soughtAt > LOOKED_FOR_MS) sellers.delete(id)
    // A node without peers learns nothing about sellers: probably this node itself is offline.
    if (connected.size < 2) return
    const due = [...sellers].filter(([id, { dueAt }]) => dueAt <= now && !connected.has(id))
    // Sellers with unknown presence first, then the latest lookups.
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
      found = { presence, answeredAt: now, failures: 0, dueAt: now + halfRandom(ONLINE_AGAIN_MS) }
    } catch {
      const presence = failures + 1 < FAILURES_MIN ? sellers.get(peerId)?.presence : { online: false }
      found = {
        ...(presence && { presence }),
        failures: failures + 1,
        dueAt: clock.now() + backoffMs(failures + 1, OFFLINE_AGAIN),
      }
    }
    const seller = sellers.get(peerId)
    // Update the entry without moving it to the end: a probe is not a lookup.
    if (seller !== undefined) Object.assign(seller, found)
  }

  const service = periodic(
    { name: 'presence', firstMs: PROBE_EVERY_MS, everyMs: PROBE_EVERY_MS },
    { work: probe, onError: () => {} },
  )
  return { of, probe, service }
}
