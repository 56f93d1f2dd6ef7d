import type { UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { FillWarning } from './fill-warning.ts'
import { LatestIds } from './latest-ids.ts'
import type { ListingEntry, ListingSet } from './set.ts'

export type ListingRoomOptions = {
  listingsMax: number
  /** Of all envelopes together. */
  bytesMax: number
}

export type ListingRoomDeps = {
  set: Pick<ListingSet, 'get' | 'judge' | 'remove' | 'size' | 'bytes'>
  logger: Logger
  /** Listings that nobody can push out, such as those that this node has called. */
  isPinned(entry: ListingEntry): boolean
}

/** Share of the room that one peer, or one site, can fill with listings that nobody told before. */
const SHARE_MAX = 0.5
/** Listings that leave for one newcomer: the largest listing is as large as a few dozen of the smallest. */
const LEAVING_MAX = 64
/** Listings of one peer that are compared to find the one that leaves. */
const COMPARED_MAX = 32

/** Who tells of a listing: a peer, and where it connects from, an IPv4 address or the /64 of an IPv6 address. */
export type Teller = { from?: string | undefined; site?: string | undefined }
/** What one peer has told first. */
type Told = { bytes: number; ids: LatestIds }
type Site = { bytes: number; listings: number; tellers: Map<string, Told> }

/** Listings of unknown origin, such as those from before a restart, count for one teller together. */
const UNKNOWN = ''

/**
 * Divides the room for listings between those who tell of them (T29).
 *
 * Identities cost nothing, so a peer can make up sellers without end. Neither a peer nor a site (an IPv4 address or the
 * /64 of an IPv6 address) fills more than half of the room. When the room is full, a newcomer takes the place of a
 * listing of the site that holds most, and there of the peer that holds most, as long as that holds more than the
 * newcomer's own. Of that peer's listings the least worth leaves: never one that this node has called, and of the
 * latest that came the largest.
 *
 * Who told first is known as long as the process runs. After a restart all that is held counts for one unknown teller.
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

  /** The entry with who told of it. A version is charged to who told of the listing first, whoever brought the version. */
  toldBy<E extends ListingEntry>(entry: E, held: ListingEntry | undefined, { from, site }: Teller): E {
    if (held !== undefined) return { ...entry, from: held.from, site: held.site }
    return { ...entry, from, site }
  }

  /** Whether an entry fits into the shares of its teller and site, in place of another version where there is one. */
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

  /** Whether there is room for an entry, or another listing may leave for it. */
  hasPlace(entry: ListingEntry, now: UnixMs): boolean {
    return this.#deps.set.judge(entry, now).outcome !== 'full' || this.#leaving(entry) !== undefined
  }

  /** Takes out of the set what has to leave for this entry, and returns it. */
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

/** A peer whose site is not known has one of its own. */
export function siteOf({ site, from }: Teller): string {
  return site ?? from ?? UNKNOWN
}

function largest<T extends { bytes: number }>(parts: ReadonlyMap<string, T>): [string, T] | undefined {
  let most: [string, T] | undefined
  for (const part of parts) if (most === undefined || part[1].bytes > most[1].bytes) most = part
  return most
}
