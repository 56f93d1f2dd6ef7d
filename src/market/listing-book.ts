import type { Clock, UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingRow, ListingStore } from '../store/listings.ts'
import { isShown, keptUntil, type ListingEntry, ListingSet } from './listing-set.ts'
import { searchable } from './searchable.ts'
import { type OpenedListing, openListing, readListing } from './signed-listing.ts'

export type ListingBookOptions = {
  listingsMax: number
  /** Of all envelopes together: a measure of memory and disk. */
  bytesMax: number
  ownSellerId: string
  /** How long others' listings may wait to be written together. */
  writeMs: number
}

export type ListingBookDeps = { store: ListingStore; clock: Clock; logger: Logger }

/** Rows read from the store at once. */
const PAGE_ROWS = 256
/** After a start a node is told at once what came up while it was away: of that, nothing is known to be the older. */
const CATCH_UP_MS = 10 * 60 * 1000

/** The set of listings together with its rows on disk. Whatever enters from outside is opened and checked here. */
export class ListingBook {
  readonly #deps: ListingBookDeps
  readonly #options: ListingBookOptions
  readonly #listeners = new Set<(record: ListingRecord) => void>()
  readonly #set: ListingSet
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
  }

  get set(): Pick<ListingSet, 'get' | 'entriesOf'> {
    return this.#set
  }

  shown(id: string): ListingRecord | undefined {
    const record = this.#set.get(id)?.record
    return record !== undefined && isShown(record, this.#deps.clock.now()) ? record : undefined
  }

  allShown(): ListingRecord[] {
    const now = this.#deps.clock.now()
    return [...this.#set.entries()].map(({ record }) => record).filter((record) => isShown(record, now))
  }

  /** Opens an envelope from anywhere and, where it is news, keeps it. `wanted` may refuse it before its signature is checked. */
  async learn(envelope: Uint8Array, wanted: (entry: ListingEntry) => boolean = () => true): Promise<OpenedListing> {
    const { clock } = this.#deps
    const opened = await openListing(envelope, {
      now: clock.now(),
      wanted: (entry) => isNews(this.#set.judge(entry, clock.now()).outcome) && wanted(entry),
    })
    if (!opened.ok) return opened
    // While the signature was checked the same, or a later one, may have come.
    if (!this.#merge(opened.entry)) return { ok: false, error: 'UNWANTED', reason: 'it has been overtaken' }
    this.#deps.store.putLater(rowOf(opened.entry, new Uint8Array(envelope), this.#seenAt()))
    this.#writeSoon()
    return opened
  }

  /** Keeps a listing of our own: on disk before anybody sees it. @throws what the store throws */
  async keepOwn(entry: ListingEntry, envelope: Uint8Array): Promise<void> {
    await this.#deps.store.putOwn(rowOf(entry, envelope, this.#seenAt()))
    this.#merge(entry)
  }

  /** Forgets, in memory and on disk, what can no longer matter (T19). */
  purge(): void {
    const gone = this.#set.purge(this.#deps.clock.now())
    for (const { record } of gone) this.#deps.store.removeLater(record.id, record.version)
    if (gone.length > 0) this.#writeSoon()
  }

  fingerprint(): Uint8Array {
    this.purge()
    return this.#set.fingerprint()
  }

  /** All envelopes, as the disk has them: call `write` first. */
  *portions(): Generator<Uint8Array[]> {
    for (const rows of this.#pages()) yield rows.map(({ envelope }) => envelope)
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

  #merge(entry: ListingEntry): boolean {
    const { outcome, evicted } = this.#set.merge(entry, this.#deps.clock.now())
    if (!isNews(outcome)) return false
    if (evicted !== undefined) this.#deps.store.removeLater(evicted.record.id, evicted.record.version)
    for (const listener of this.#listeners) this.#tell(listener, entry.record)
    return true
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
    const { clock, store } = this.#deps
    for (const rows of this.#pages()) {
      for (const { id, version, envelope } of rows) {
        const read = readListing(envelope)
        if (read.ok && isNews(this.#set.merge(read.entry, clock.now()).outcome)) continue
        store.removeLater(id, version)
        this.#writeSoon()
      }
    }
  }

  *#pages(): Generator<ListingRow[]> {
    let after = ''
    for (;;) {
      const rows = this.#deps.store.page(after, PAGE_ROWS)
      if (rows.length === 0) return
      yield rows
      after = rows.at(-1)!.id
    }
  }

  #writeSoon(): void {
    if (!this.#closed) this.#writing ??= setTimeout(() => void this.write(), this.#options.writeMs).unref()
  }
}

function isNews(outcome: string): boolean {
  return outcome === 'added' || outcome === 'replaced'
}

function rowOf({ record }: ListingEntry, envelope: Uint8Array, seenAt: UnixMs): ListingRow {
  const { id, seller_id: sellerId, version, state } = record
  const search = state === 'active' ? { search: searchable(record, seenAt) } : {}
  return { id, sellerId, version, state, keptUntil: keptUntil(record), envelope, ...search }
}
