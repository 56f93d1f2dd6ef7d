import type { UnixMs } from '../lib/clock.ts'
import { type ElementKey, elementKey, KEY_BYTES, writeElementKey } from '../protocols/sync/reconcile/element-key.ts'
import { RangeIndex } from '../protocols/sync/reconcile/range-index.ts'
import { LISTING_SKEW_MS, LISTING_TTL_MS, type ListingRecord } from '../schema/listing.ts'

/** Listings of one seller, tombstones included. A seller's oldest versions are dropped beyond it. */
export const LISTINGS_PER_SELLER_MAX = 64

/** The fields of a listing that decide how it merges and whether it is on the market. The other fields are on disk. */
type ListingHead = Pick<ListingRecord, 'id' | 'seller_id' | 'state' | 'version' | 'updated_at' | 'expires_at'>

/** One version of a listing. */
export type ListingEntry = {
  record: ListingHead
  /** SHA-256, in hex, of the bytes that the owner signed. */
  hash: string
  /** Size of the envelope, charged against the room. */
  bytes: number
  /** The peer that sent the listing first. Undefined for stored listings and our own. */
  from?: string | undefined
  /** Where that peer connects from: an IPv4 address, or the /64 of an IPv6 address. */
  site?: string | undefined
}

export type MergeOutcome = 'added' | 'replaced' | 'known' | 'older' | 'expired' | 'seller-full' | 'full'
/** `evicted` had to leave for the merged entry. */
type MergeResult = { outcome: MergeOutcome; evicted?: ListingEntry }

type ListingSetOptions = {
  listingsMax: number
  bytesMax: number
  perSellerMax?: number
  /** The seller whose listings are never refused for lack of room: this node. */
  ownSellerId?: string
}

/**
 * The order of all versions: the higher version is later, and of equal versions the larger hash. It is 0 only for equal
 * contents.
 */
export function compareEntries(a: ListingEntry, b: ListingEntry): number {
  if (a.record.version !== b.record.version) return a.record.version - b.record.version
  if (a.hash === b.hash) return 0
  return a.hash > b.hash ? 1 : -1
}

/**
 * When a version, shown or not, may be forgotten. By then no older version of the listing can be valid, because none
 * may expire later than its own version + TTL + skew. If it were forgotten sooner, an old version could return.
 */
export function keptUntil(record: Pick<ListingHead, 'version'>): UnixMs {
  return record.version + LISTING_TTL_MS + LISTING_SKEW_MS
}

/** The key of an entry in reconciliation. */
export function keyOf({ record, hash }: ListingEntry): ElementKey {
  return elementKey(record.updated_at, hash)
}

/** Builds the index of all entries of a set. */
export function indexOf(set: ListingSet): RangeIndex {
  const keys = Buffer.alloc(set.size * KEY_BYTES)
  let at = 0
  for (const { record, hash } of set.entries()) {
    writeElementKey(keys, at, record.updated_at, hash)
    at += KEY_BYTES
  }
  return RangeIndex.ofPacked(keys)
}

/** True if a listing is on the market: not a tombstone and not expired. */
export function isShown(record: ListingHead, now: UnixMs): boolean {
  return record.state === 'active' && now < record.expires_at
}

export function headOf({ id, seller_id, state, version, updated_at, expires_at }: ListingHead): ListingHead {
  return { id, seller_id, state, version, updated_at, expires_at }
}

/**
 * The market's listings as this node knows them: a last-writer-wins map (a delta-state CRDT).
 *
 * For each seller the set holds the 64 listings with the highest versions. Merging is commutative, associative and
 * idempotent. Replicas that have seen the same versions, in any order and number, therefore hold the same listings. The
 * set knows nothing about signatures (signed-listing.ts) or about how versions travel (gossip.ts, sync-sessions.ts).
 *
 * The limits on all listings protect memory and are not part of these laws. A full set accepts newer versions of
 * listings it holds and refuses unknown listings. room.ts decides which listing leaves for a newcomer.
 */
export class ListingSet {
  readonly #options: Required<Omit<ListingSetOptions, 'ownSellerId'>> & { ownSellerId: string | undefined }
  readonly #entries = new Map<string, ListingEntry>()
  readonly #idsOf = new Map<string, Set<string>>()
  #bytes = 0
  /** No entry may be forgotten before this time. */
  #purgeDue = Number.POSITIVE_INFINITY

  constructor({ listingsMax, bytesMax, perSellerMax = LISTINGS_PER_SELLER_MAX, ownSellerId }: ListingSetOptions) {
    this.#options = { listingsMax, bytesMax, perSellerMax, ownSellerId }
  }

  get size(): number {
    return this.#entries.size
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Ids that start with `beginning`, shown or not. */
  *idsBeginning(beginning: string): Generator<string> {
    for (const id of this.#entries.keys()) if (id.startsWith(beginning)) yield id
  }

  get(id: string): ListingEntry | undefined {
    return this.#entries.get(id)
  }

  entries(): MapIterator<ListingEntry> {
    return this.#entries.values()
  }

  entriesOf(sellerId: string): ListingEntry[] {
    return [...(this.#idsOf.get(sellerId) ?? [])].map((id) => this.#entries.get(id)!)
  }

  /** What `merge` would return, without merging. */
  judge(entry: ListingEntry, now: UnixMs): MergeResult {
    const { record } = entry
    if (now >= keptUntil(record)) return { outcome: 'expired' }
    const held = this.#entries.get(record.id)
    if (held !== undefined) {
      const order = compareEntries(entry, held)
      if (order <= 0) return { outcome: order === 0 ? 'known' : 'older' }
      return { outcome: this.#hasRoom(entry, held) ? 'replaced' : 'full' }
    }
    const lowest = this.#lowestOfFull(record.seller_id)
    if (lowest !== undefined && compareEntries(entry, lowest) < 0) return { outcome: 'seller-full' }
    if (!this.#hasRoom(entry, lowest)) return { outcome: 'full' }
    return lowest === undefined ? { outcome: 'added' } : { outcome: 'added', evicted: lowest }
  }

  merge(entry: ListingEntry, now: UnixMs): MergeResult {
    const merged = this.judge(entry, now)
    if (merged.outcome !== 'added' && merged.outcome !== 'replaced') return merged
    if (merged.evicted !== undefined) this.#remove(merged.evicted)
    const held = this.#entries.get(entry.record.id)
    if (held !== undefined) this.#remove(held)
    this.#add(entry)
    return merged
  }

  /** Stops holding the entry, to make room. */
  remove(entry: ListingEntry): void {
    if (this.#entries.get(entry.record.id) === entry) this.#remove(entry)
  }

  /** Removes what no longer matters and returns it. Costs nothing before the first entry is due. */
  purge(now: UnixMs): ListingEntry[] {
    if (now < this.#purgeDue) return []
    const gone = [...this.#entries.values()].filter(({ record }) => now >= keptUntil(record))
    for (const entry of gone) this.#remove(entry)
    this.#purgeDue = this.#entries
      .values()
      .reduce((due, { record }) => Math.min(due, keptUntil(record)), Number.POSITIVE_INFINITY)
    return gone
  }

  #hasRoom(entry: ListingEntry, leaves: ListingEntry | undefined): boolean {
    const { listingsMax, bytesMax, ownSellerId } = this.#options
    if (entry.record.seller_id === ownSellerId) return true
    const growth = entry.bytes - (leaves?.bytes ?? 0)
    if (leaves === undefined && this.#entries.size >= listingsMax) return false
    return growth <= 0 || this.#bytes + growth <= bytesMax
  }

  #lowestOfFull(sellerId: string): ListingEntry | undefined {
    if ((this.#idsOf.get(sellerId)?.size ?? 0) < this.#options.perSellerMax) return undefined
    return this.entriesOf(sellerId).reduce((low, entry) => (compareEntries(entry, low) < 0 ? entry : low))
  }

  #add(entry: ListingEntry): void {
    const { id, seller_id } = entry.record
    this.#entries.set(id, entry)
    const ids = this.#idsOf.get(seller_id)
    if (ids === undefined) this.#idsOf.set(seller_id, new Set([id]))
    else ids.add(id)
    this.#bytes += entry.bytes
    this.#purgeDue = Math.min(this.#purgeDue, keptUntil(entry.record))
  }

  #remove(entry: ListingEntry): void {
    const { id, seller_id } = entry.record
    this.#entries.delete(id)
    const ids = this.#idsOf.get(seller_id)
    ids?.delete(id)
    if (ids?.size === 0) this.#idsOf.delete(seller_id)
    this.#bytes -= entry.bytes
  }
}
