import { availableParallelism } from 'node:os'
import type { Clock, UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingStore, LoadedListing } from '../store/listings.ts'
import { rowOf } from './listing-row.ts'
import { isShown, type ListingEntry, ListingSet } from './listing-set.ts'
import { type ElementKey, elementKey, HASH_BYTES, TIME_BYTES, timeOf } from './reconcile/element-key.ts'
import { RangeIndex, type RangeView } from './reconcile/range-index.ts'
import {
  isHostile,
  type ListingRefusal,
  type OpenedListing,
  openListing,
  type ReadEntry,
  readListing,
} from './signed-listing.ts'

export type ListingBookOptions = {
  listingsMax: number
  /** Of all envelopes together: a measure of memory and disk. */
  bytesMax: number
  ownSellerId: string
  /** How long others' listings may wait to be written together. */
  writeMs: number
}

export type ListingBookDeps = { store: ListingStore; clock: Clock; logger: Logger }

export type LearnOptions = {
  /** May refuse a listing before its signature is checked. */
  wanted?: (entry: ReadEntry) => boolean
  /** It need not be found by searches at once. */
  indexLater?: boolean
}

/** Signatures checked at once, on the thread pool: what is more would only take the cores from the event loop. */
const CHECKS_AT_ONCE = 2 * availableParallelism()
/** Records kept beside the disk: as many as searches show again and again. */
const RECORDS_MAX = 1024
/** After a start a node is told at once what came up while it was away: of that, nothing is known to be the older. */
const CATCH_UP_MS = 10 * 60 * 1000

/**
 * The set of listings, in memory by their heads, together with their rows on disk and the index by which two replicas
 * find out how they differ. Whatever enters from outside is opened and checked here.
 */
export class ListingBook {
  readonly #deps: ListingBookDeps
  readonly #options: ListingBookOptions
  readonly #listeners = new Set<(record: ListingRecord) => void>()
  readonly #set: ListingSet
  readonly #index: RangeIndex
  readonly #records = new Map<string, ReadEntry>()
  readonly #openedAt: UnixMs
  #writing: NodeJS.Timeout | undefined
  #writeFailed = false
  #closed = false

  constructor(options: ListingBookOptions, deps: ListingBookDeps) {
    this.#deps = deps
    this.#options = options
    this.#set = new ListingSet(options)
    this.#openedAt = deps.clock.now()
    this.#load()
    this.#index = new RangeIndex(this.#set.entries().map(keyOf))
  }

  get set(): Pick<ListingSet, 'get' | 'entriesOf' | 'size' | 'bytes'> {
    return this.#set
  }

  /** A listing that is on the market. */
  shown(id: string): ListingRecord | undefined {
    const head = this.#set.get(id)?.record
    return head !== undefined && isShown(head, this.#deps.clock.now()) ? this.record(id) : undefined
  }

  /** All that are on the market, read from the disk: not for where it matters how long it takes. */
  allShown(): ListingRecord[] {
    const now = this.#deps.clock.now()
    const shown = this.#set.entries().filter(({ record }) => isShown(record, now))
    return [...shown].flatMap(({ record }) => this.record(record.id) ?? [])
  }

  count(): number {
    const now = this.#deps.clock.now()
    return this.#set.entries().reduce((count, { record }) => count + Number(isShown(record, now)), 0)
  }

  /** All of a listing that is held, be it on the market or not. */
  record(id: string): ListingRecord | undefined {
    const held = this.#set.get(id)
    if (held === undefined) return undefined
    const known = this.#records.get(id)
    if (known?.hash === held.hash) return known.record
    const envelope = this.#deps.store.envelope(id)
    const read = envelope === undefined ? undefined : readListing(envelope)
    // What a later version of the code cannot read is as good as gone.
    if (read?.ok !== true || read.entry.hash !== held.hash) return undefined
    this.#remember(read.entry)
    return read.entry.record
  }

  /** Opens an envelope from anywhere and, where it is news, keeps it. */
  async learn(envelope: Uint8Array, { wanted, indexLater }: LearnOptions = {}): Promise<OpenedListing> {
    const { clock } = this.#deps
    const opened = await openListing(envelope, {
      now: clock.now(),
      wanted: (entry) => isNews(this.#set.judge(entry, clock.now()).outcome) && (wanted?.(entry) ?? true),
    })
    if (!opened.ok) return opened
    // While the signature was checked the same, or a later one, may have come.
    if (!this.#merge(opened.entry)) return { ok: false, error: 'UNWANTED', reason: 'it has been overtaken' }
    const seen = { seenAt: this.#seenAt(), indexLater: indexLater ?? false }
    this.#deps.store.putLater(rowOf(opened.entry, new Uint8Array(envelope), seen))
    this.#writeSoon()
    return opened
  }

  /**
   * Learns a batch, some at once, and writes what was news. Ends early where one shows that its bearer is hostile.
   *
   * @param each is told of every listing that was news
   */
  async learnAll(
    envelopes: readonly Uint8Array[],
    options: LearnOptions,
    each: (entry: ReadEntry, envelope: Uint8Array) => void,
  ): Promise<{ news: number; hostile?: ListingRefusal }> {
    const waiting = envelopes.values()
    const result: { news: number; hostile?: ListingRefusal } = { news: 0 }
    const learnInTurn = async () => {
      for (const envelope of waiting) {
        const opened = await this.learn(envelope, options)
        if (opened.ok) {
          result.news++
          each(opened.entry, envelope)
        } else if (isHostile(opened.error)) result.hostile = opened
        if (result.hostile !== undefined) return
      }
    }
    await Promise.all(Array.from({ length: CHECKS_AT_ONCE }, learnInTurn))
    if (result.news > 0) await this.write()
    return result
  }

  /** Keeps a listing of our own: on disk before anybody sees it. @throws what the store throws */
  async keepOwn(entry: ReadEntry, envelope: Uint8Array): Promise<void> {
    await this.#deps.store.putOwn(rowOf(entry, envelope, { seenAt: this.#seenAt() }))
    this.#merge(entry)
  }

  /** Forgets, in memory and on disk, what can no longer matter (T19). */
  purge(): void {
    const gone = this.#set.purge(this.#deps.clock.now())
    for (const entry of gone) this.#forget(entry)
  }

  /** What is held, for reconciliation, as it is now. */
  view(): RangeView {
    this.purge()
    return this.#index.snapshot()
  }

  /** The envelopes of these elements, as far as they are still held and written. */
  envelopes(keys: readonly ElementKey[]): Uint8Array[] {
    return keys.flatMap((key) => {
      const found = this.#deps.store.find(timeOf(key), key.subarray(TIME_BYTES))
      const held = found === undefined ? undefined : this.#set.get(found.id)
      const prefix = Buffer.from(key).toString('hex', TIME_BYTES, TIME_BYTES + HASH_BYTES)
      return found !== undefined && held?.hash.startsWith(prefix) === true ? [found.envelope] : []
    })
  }

  /** Writes what waits. A disk that refuses is logged, once until it takes again, and asked anew with the next change. */
  async write(): Promise<void> {
    clearTimeout(this.#writing)
    this.#writing = undefined
    try {
      await this.#deps.store.flush()
      this.#writeFailed = false
    } catch (error) {
      const message = 'listings of others could not be stored; they are kept in memory and written later'
      if (!this.#writeFailed) this.#deps.logger.error({ reason: reasonOf(error) }, message)
      this.#writeFailed = true
    }
  }

  /** Writes what waits, for the last time. */
  async close(): Promise<void> {
    this.#closed = true
    await this.write()
  }

  onChange(listener: (record: ListingRecord) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #seenAt(): UnixMs {
    const now = this.#deps.clock.now()
    return now < this.#openedAt + CATCH_UP_MS ? this.#openedAt : now
  }

  #merge({ record, hash, bytes }: ReadEntry): boolean {
    const held = this.#set.get(record.id)
    const entry = { record: headOf(record), hash, bytes }
    const { outcome, evicted } = this.#set.merge(entry, this.#deps.clock.now())
    if (!isNews(outcome)) return false
    if (held !== undefined) this.#index.delete(keyOf(held))
    if (evicted !== undefined) this.#forget(evicted)
    this.#index.add(keyOf(entry))
    // Whoever is told looks at it at once, and it is not on disk yet.
    this.#remember({ record, hash, bytes })
    for (const listener of this.#listeners) this.#tell(listener, record)
    return true
  }

  #remember(entry: ReadEntry): void {
    this.#records.delete(entry.record.id)
    this.#records.set(entry.record.id, entry)
    if (this.#records.size > RECORDS_MAX) this.#records.delete(this.#records.keys().next().value!)
  }

  #forget(entry: ListingEntry): void {
    this.#index.delete(keyOf(entry))
    this.#records.delete(entry.record.id)
    this.#deps.store.removeLater(entry.record.id, entry.record.version)
    this.#writeSoon()
  }

  #tell(listener: (record: ListingRecord) => void, record: ListingRecord): void {
    try {
      listener(record)
    } catch (error) {
      this.#deps.logger.error({ reason: reasonOf(error) }, 'a listener of the replica failed')
    }
  }

  /** Signatures were checked before the rows were written. Rows that a later version of the code cannot read are dropped. */
  #load(): void {
    const { clock, store, logger } = this.#deps
    const now = clock.now()
    const sellers = new Map<string, string>()
    for (const row of store.load()) {
      const entry = entryOf(row)
      // One text for all listings of a seller, as each comes with its own.
      if (entry !== undefined) {
        const { seller_id } = entry.record
        if (!sellers.has(seller_id)) sellers.set(seller_id, seller_id)
        entry.record.seller_id = sellers.get(seller_id)!
      }
      if (entry !== undefined && isNews(this.#set.merge(entry, now).outcome)) {
        // Rewritten with all that the store now keeps beside it.
        if (row.opened !== undefined) this.#rewrite(row.opened)
        continue
      }
      store.removeLater(row.id, row.version)
      this.#writeSoon()
    }
    if (this.#set.size > 0) logger.debug({ listings: this.#set.size }, 'listings were loaded')
  }

  #rewrite(envelope: Uint8Array): void {
    const read = readListing(envelope)
    if (!read.ok) return
    this.#deps.store.putLater(rowOf(read.entry, envelope, { seenAt: this.#openedAt }))
    this.#writeSoon()
  }

  #writeSoon(): void {
    if (!this.#closed) this.#writing ??= setTimeout(() => void this.write(), this.#options.writeMs).unref()
  }
}

function isNews(outcome: string): boolean {
  return outcome === 'added' || outcome === 'replaced'
}

function keyOf({ record, hash }: ListingEntry): ElementKey {
  return elementKey(record.updated_at, hash)
}

function headOf({ id, seller_id, state, version, updated_at, expires_at }: ListingEntry['record']) {
  return { id, seller_id, state, version, updated_at, expires_at }
}

function entryOf({ opened, hash, bytes, ...row }: LoadedListing): ListingEntry | undefined {
  if (opened !== undefined) {
    const read = readListing(opened)
    return read.ok ? { ...read.entry, record: headOf(read.entry.record) } : undefined
  }
  const { id, sellerId: seller_id, state, version, updatedAt: updated_at, expiresAt: expires_at } = row
  return { record: { id, seller_id, state, version, updated_at, expires_at }, hash, bytes }
}
