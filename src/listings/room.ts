import type { UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { LatestIds } from './latest-ids.ts'
import type { ListingEntry, ListingSet } from './set.ts'

type ListingRoomOptions = {
  listingsMax: number
  bytesMax: number
}

type ListingRoomDeps = {
  set: Pick<ListingSet, 'get' | 'judge' | 'remove' | 'size' | 'bytes'>
  logger: Logger
  /** True for listings that nobody can push out: our own, and those of agents that this node has called. */
  isPinned(entry: ListingEntry): boolean
}

/** Share of the room that one peer, or one site, can fill with listings it was the first to send (T29). */
const SHARE_MAX = 0.5
/** The replica warns when it is this full. */
const WARN_SHARE = 0.8
/** Below this share the warning is armed again. */
const CALM_SHARE = 0.75
/** Listings that may leave for one newcomer. The largest listing is as large as a few dozen of the smallest. */
const LEAVING_MAX = 64
/** Listings of one peer compared to find the one that leaves. It bounds the work for each newcomer. */
const COMPARED_MAX = 32

/** The peer that sent a listing, and its site. A site is an IPv4 address or the /64 of an IPv6 address. */
export type ListingSource = { from?: string | undefined; site?: string | undefined }
/** The listings that one peer was the first to send. */
type PeerShare = { bytes: number; ids: LatestIds }
type SiteShare = { bytes: number; listings: number; peers: Map<string, PeerShare> }

/** Listings of unknown origin, such as those from before a restart, count together as one peer. */
const UNKNOWN = ''

/**
 * Divides the room for listings between the peers that send them (T29). The source of a listing is the peer that sent
 * it first.
 *
 * Identities cost nothing, so a peer can make up any number of sellers. No peer and no site (an IPv4 address or the /64
 * of an IPv6 address) can fill more than half of the room. When the room is full, a newcomer replaces a listing of the
 * site that holds most, and there of the peer that holds most. That site or peer must hold more than the newcomer's
 * own. Among the 32 latest listings of that peer, the largest leaves. Pinned listings never leave.
 *
 * Sources are known only while the process runs. After a restart all stored listings count for one unknown peer.
 */
export class ListingRoom {
  readonly #options: ListingRoomOptions
  readonly #deps: ListingRoomDeps
  readonly #sites = new Map<string, SiteShare>()
  #hasWarned = false

  constructor(options: ListingRoomOptions, deps: ListingRoomDeps) {
    this.#options = options
    this.#deps = deps
  }

  /**
   * Adds the source to the entry. A new version is charged to the first source of the listing, no matter who sent the
   * version.
   */
  withSource<E extends ListingEntry>(entry: E, held: ListingEntry | undefined, { from, site }: ListingSource): E {
    if (held !== undefined) return { ...entry, from: held.from, site: held.site }
    return { ...entry, from, site }
  }

  /**
   * True if the entry fits into the shares of its source and its site. It replaces `held` if another version is held.
   */
  fits(entry: ListingEntry, held: ListingEntry | undefined): boolean {
    if (entry.from === undefined) return true
    const site = this.#sites.get(siteOf(entry))
    const peer = site?.peers.get(entry.from)
    const growth = entry.bytes - (held?.bytes ?? 0)
    return [
      { listings: site?.listings ?? 0, bytes: site?.bytes ?? 0 },
      { listings: peer?.ids.size ?? 0, bytes: peer?.bytes ?? 0 },
    ].every(({ listings, bytes }) => {
      if (held === undefined && listings >= SHARE_MAX * this.#options.listingsMax) return false
      return growth <= 0 || bytes + growth <= SHARE_MAX * this.#options.bytesMax
    })
  }

  /** True if there is room for an entry, or another listing may leave for it. */
  hasPlace(entry: ListingEntry, now: UnixMs): boolean {
    return this.#deps.set.judge(entry, now).outcome !== 'full' || this.#leaving(entry) !== undefined
  }

  /** Removes from the set what must leave for this entry, and returns it. */
  makePlace(entry: ListingEntry, now: UnixMs): ListingEntry[] {
    const left: ListingEntry[] = []
    while (left.length < LEAVING_MAX && this.#deps.set.judge(entry, now).outcome === 'full') {
      const leaving = this.#leaving(entry)
      if (leaving === undefined) break
      this.#deps.set.remove(leaving)
      this.remove(leaving)
      left.push(leaving)
    }
    return left
  }

  #leaving(entry: ListingEntry): ListingEntry | undefined {
    const fullest = largest(this.#sites)
    if (fullest === undefined) return undefined
    const [name, site] = fullest
    const growth = entry.bytes - (this.#deps.set.get(entry.record.id)?.bytes ?? 0)
    if (name !== siteOf(entry)) {
      if (site.bytes <= (this.#sites.get(siteOf(entry))?.bytes ?? 0) + growth) return undefined
      return this.#leastWorth(largest(site.peers)?.[1], entry)
    }
    const [peer, most] = largest(site.peers)!
    const mine = site.peers.get(entry.from ?? UNKNOWN)?.bytes ?? 0
    if (peer === (entry.from ?? UNKNOWN) || most.bytes <= mine + growth) return undefined
    return this.#leastWorth(most, entry)
  }

  add(entry: ListingEntry): void {
    const name = siteOf(entry)
    const site = this.#sites.get(name) ?? { bytes: 0, listings: 0, peers: new Map<string, PeerShare>() }
    const from = entry.from ?? UNKNOWN
    const peer = site.peers.get(from) ?? { bytes: 0, ids: new LatestIds() }
    this.#sites.set(name, site)
    site.peers.set(from, peer)
    peer.ids.add(entry.record.id)
    peer.bytes += entry.bytes
    site.bytes += entry.bytes
    site.listings++
    this.#warnIfFull()
  }

  remove(entry: ListingEntry): void {
    const name = siteOf(entry)
    const from = entry.from ?? UNKNOWN
    const site = this.#sites.get(name)
    const peer = site?.peers.get(from)
    if (site === undefined || peer?.ids.delete(entry.record.id) !== true) return
    peer.bytes -= entry.bytes
    site.bytes -= entry.bytes
    site.listings--
    if (peer.ids.size === 0) site.peers.delete(from)
    if (site.listings === 0) this.#sites.delete(name)
  }

  /** Warns once when the replica fills up. It warns again only after there was room in between. */
  #warnIfFull(): void {
    const { listingsMax, bytesMax } = this.#options
    const { size: listings, bytes } = this.#deps.set
    const share = Math.max(listings / listingsMax, bytes / bytesMax)
    if (share < CALM_SHARE) this.#hasWarned = false
    if (share < WARN_SHARE || this.#hasWarned) return
    this.#hasWarned = true
    this.#deps.logger.warn(
      { count: listings },
      `the replica of the market is ${Math.floor(100 * share)} % full. Once it is full, listings of the peers that sent ` +
        'most of them leave for new ones. Block a peer that floods the market: `stoa status` shows the peers',
    )
  }

  #leastWorth(peer: PeerShare | undefined, newcomer: ListingEntry): ListingEntry | undefined {
    if (peer === undefined) return undefined
    const latest = peer.ids.latest(COMPARED_MAX).flatMap((id) => this.#deps.set.get(id) ?? [])
    return latest
      .filter((entry) => entry.record.id !== newcomer.record.id && !this.#deps.isPinned(entry))
      .reduce<ListingEntry | undefined>(
        (least, entry) => (least === undefined || entry.bytes >= least.bytes ? entry : least),
        undefined,
      )
  }
}

/** A peer whose site is unknown counts as a site of its own. */
export function siteOf({ site, from }: ListingSource): string {
  return site ?? from ?? UNKNOWN
}

function largest<T extends { bytes: number }>(parts: ReadonlyMap<string, T>): [string, T] | undefined {
  let most: [string, T] | undefined
  for (const part of parts) if (most === undefined || part[1].bytes > most[1].bytes) most = part
  return most
}
