import type { UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { FillWarning } from './fill-warning.ts'
import { LatestIds } from './latest-ids.ts'
import type { ListingEntry, ListingSet } from './set.ts'

type ListingRoomOptions = {
  listingsMax: number
  /** Bytes of all envelopes together. */
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
/** Listings that may leave for one newcomer. The largest listing is as large as a few dozen of the smallest. */
const LEAVING_MAX = 64
/** Listings of one peer compared to find the one that leaves. It bounds the work for each newcomer. */
const COMPARED_MAX = 32

/** The peer that sent a listing, and its site. A site is an IPv4 address or the /64 of an IPv6 address. */
export type Teller = { from?: string | undefined; site?: string | undefined }
/** The listings that one peer was the first to send. */
type Told = { bytes: number; ids: LatestIds }
type Site = { bytes: number; listings: number; tellers: Map<string, Told> }

/** Listings of unknown origin, such as those from before a restart, count together as one teller. */
const UNKNOWN = ''

/**
 * Divides the room for listings between the peers that send them (T29). The teller of a listing is the peer that sent
 * it first.
 *
 * Identities cost nothing, so a peer can make up any number of sellers. No peer and no site (an IPv4 address or the /64
 * of an IPv6 address) can fill more than half of the room. When the room is full, a newcomer replaces a listing of the
 * site that holds most, and there of the peer that holds most. That site or peer must hold more than the newcomer's
 * own. Among the 32 latest listings of that peer, the largest leaves. Pinned listings never leave.
 *
 * Tellers are known only while the process runs. After a restart all stored listings count for one unknown teller.
 */
export class ListingRoom {
  readonly #options: ListingRoomOptions
  readonly #deps: ListingRoomDeps
  readonly #sites = new Map<string, Site>()
  readonly #warning: FillWarning

  constructor(options: ListingRoomOptions, deps: ListingRoomDeps) {
    this.#options = options
    this.#deps = deps
    this.#warning = new FillWarning(deps.logger)
  }

  /**
   * Adds the teller to the entry. A new version is charged to the first teller of the listing, no matter who sent the
   * version.
   */
  toldBy<E extends ListingEntry>(entry: E, held: ListingEntry | undefined, { from, site }: Teller): E {
    if (held !== undefined) return { ...entry, from: held.from, site: held.site }
    return { ...entry, from, site }
  }

  /**
   * True if the entry fits into the shares of its teller and its site. It replaces `held` if another version is held.
   */
  fits(entry: ListingEntry, held: ListingEntry | undefined): boolean {
    if (entry.from === undefined) return true
    const site = this.#sites.get(siteOf(entry))
    const teller = site?.tellers.get(entry.from)
    const growth = entry.bytes - (held?.bytes ?? 0)
    return [
      { listings: site?.listings ?? 0, bytes: site?.bytes ?? 0 },
      { listings: teller?.ids.size ?? 0, bytes: teller?.bytes ?? 0 },
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
      return this.#leastWorth(largest(site.tellers)?.[1], entry)
    }
    const [teller, most] = largest(site.tellers)!
    const mine = site.tellers.get(entry.from ?? UNKNOWN)?.bytes ?? 0
    if (teller === (entry.from ?? UNKNOWN) || most.bytes <= mine + growth) return undefined
    return this.#leastWorth(most, entry)
  }

  add(entry: ListingEntry): void {
    const name = siteOf(entry)
    const site = this.#sites.get(name) ?? { bytes: 0, listings: 0, tellers: new Map<string, Told>() }
    const from = entry.from ?? UNKNOWN
    const teller = site.tellers.get(from) ?? { bytes: 0, ids: new LatestIds() }
    this.#sites.set(name, site)
    site.tellers.set(from, teller)
    teller.ids.add(entry.record.id)
    teller.bytes += entry.bytes
    site.bytes += entry.bytes
    site.listings++
    const { size: listings, bytes } = this.#deps.set
    this.#warning.look({ ...this.#options, listings, bytes })
  }

  remove(entry: ListingEntry): void {
    const name = siteOf(entry)
    const from = entry.from ?? UNKNOWN
    const site = this.#sites.get(name)
    const teller = site?.tellers.get(from)
    if (site === undefined || teller?.ids.delete(entry.record.id) !== true) return
    teller.bytes -= entry.bytes
    site.bytes -= entry.bytes
    site.listings--
    if (teller.ids.size === 0) site.tellers.delete(from)
    if (site.listings === 0) this.#sites.delete(name)
  }

  #leastWorth(teller: Told | undefined, newcomer: ListingEntry): ListingEntry | undefined {
    if (teller === undefined) return undefined
    const latest = teller.ids.latest(COMPARED_MAX).flatMap((id) => this.#deps.set.get(id) ?? [])
    return latest
      .filter((entry) => entry.record.id !== newcomer.record.id && !this.#deps.isPinned(entry))
      .reduce<ListingEntry | undefined>(
        (least, entry) => (least === undefined || entry.bytes >= least.bytes ? entry : least),
        undefined,
      )
  }
}

/** A peer whose site is unknown counts as a site of its own. */
export function siteOf({ site, from }: Teller): string {
  return site ?? from ?? UNKNOWN
}

function largest<T extends { bytes: number }>(parts: ReadonlyMap<string, T>): [string, T] | undefined {
  let most: [string, T] | undefined
  for (const part of parts) if (most === undefined || part[1].bytes > most[1].bytes) most = part
  return most
}
