import type { Clock, UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { Pace } from '../lib/pace.ts'
import type { SignatureCheck } from '../p2p/signature.ts'
import type { SignaturePool } from '../p2p/signature-pool.ts'
import { type ElementKey, HASH_BYTES, TIME_BYTES, timeOf } from '../protocols/sync/reconcile/element-key.ts'
import type { RangeIndex, RangeView } from '../protocols/sync/reconcile/range-index.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingStore } from '../store/listings.ts'
import { indexOf, keyOf } from './entry-keys.ts'
import { ListingRoom, siteOf, type Teller } from './room.ts'
import { rowOf } from './row.ts'
import { headOf, isShown, type ListingEntry, ListingSet } from './set.ts'
import {
  forged,
  isHostile,
  type JudgeOptions,
  judgeListing,
  type ListingRefusal,
  type OpenedListing,
  openListing,
  type ReadEntry,
  readListing,
} from './signed-listing.ts'
import { storedEntries } from './stored-entries.ts'
import { StoredRecords } from './stored-records.ts'
import { ListingWriter } from './writer.ts'

type ListingBookOptions = {
  listingsMax: number
  /** Bytes of all envelopes together. Bounds memory and disk. */
  bytesMax: number
  ownSellerId: string
  /** How long listings of others may wait to be written together, in ms. */
  writeMs: number
}

type ListingBookDeps = {
  store: ListingStore
  signatures: SignatureChecks
  clock: Clock
  logger: Logger
  /** Limits how much of the event loop the work for other nodes takes. */
  pace: Pace
  /** True if this node has called the agent. The agent's listing is then never pushed out. */
  isCalled?(agentId: string): boolean
}
/** Checks signatures in batches of hundreds. */
type SignatureChecks = Pick<SignaturePool, 'check'>

export type ListingListener = (record: ListingRecord, wasShown: boolean) => void

type LearnOptions = Teller & {
  /** May refuse a listing before its signature is checked. */
  wanted?: (entry: ReadEntry) => boolean
  /** True if searches need not find it at once. */
  indexLater?: boolean
}

/** Listings learned this soon after a start count as first seen at the start: nobody knows which is older. */
const CATCH_UP_MS = 10 * 60 * 1000

/**
 * The set of listings. Memory holds the head of each listing and the index for reconciliation; the disk holds the rows.
 * Everything from outside is opened and checked here.
 */
export class ListingBook {
  readonly #deps: ListingBookDeps
  readonly #listeners = new Set<ListingListener>()
  readonly #set: ListingSet
  readonly #index: RangeIndex
  readonly #room: ListingRoom
  readonly #records: StoredRecords
  readonly #writer: ListingWriter
  readonly #openedAt: UnixMs

  constructor(options: ListingBookOptions, deps: ListingBookDeps) {
    this.#deps = deps
    this.#set = new ListingSet(options)
    this.#room = new ListingRoom(options, {
      set: this.#set,
      logger: deps.logger,
      isPinned: ({ record }) => record.seller_id === options.ownSellerId || deps.isCalled?.(record.id) === true,
    })
    this.#records = new StoredRecords(deps.store)
    this.#writer = new ListingWriter(options, deps)
    this.#openedAt = deps.clock.now()
    this.#load()
    this.#index = indexOf(this.#set)
  }

  get set(): Pick<ListingSet, 'get' | 'entriesOf' | 'idsBeginning' | 'size' | 'bytes'> {
    return this.#set
  }

  /** A listing that is on the market. */
  shown(id: string): ListingRecord | undefined {
    const head = this.#set.get(id)?.record
    return head !== undefined && isShown(head, this.#deps.clock.now()) ? this.record(id) : undefined
  }

  /** All listings on the market, read from disk. Do not use it where latency matters. */
  allShown(): ListingRecord[] {
    const now = this.#deps.clock.now()
    const shown = this.#set.entries().filter(({ record }) => isShown(record, now))
    return [...shown].flatMap(({ record }) => this.record(record.id) ?? [])
  }

  count(): number {
    const now = this.#deps.clock.now()
    return this.#set.entries().reduce((count, { record }) => count + Number(isShown(record, now)), 0)
  }

  /** The complete record of a listing that is held, on the market or not. */
  record(id: string): ListingRecord | undefined {
    const held = this.#set.get(id)
    return held === undefined ? undefined : this.#records.recordOf(held)
  }

  /** Opens an envelope from any source and keeps it if it is new. */
  async learn(envelope: Uint8Array, options: LearnOptions = {}): Promise<OpenedListing> {
    const inTurn = <T>(work: () => T) => this.#deps.pace.run(siteOf(options), work)
    const isGenuine = async (check: SignatureCheck) => (await this.#deps.signatures.check([check]))[0]!
    const opened = await openListing(envelope, this.#judging(options), { run: inTurn, isGenuine })
    if (!opened.ok) return opened
    // The same or a later version may have arrived while the signature was checked.
    if (await inTurn(() => this.#keep(opened.entry, envelope, options))) return opened
    return { ok: false, error: 'UNWANTED', reason: 'it has been overtaken' }
  }

  /**
   * Learns a batch. Call `write` before learning many more batches. Stops early if an envelope shows that the sender is
   * hostile.
   *
   * @param each is called with every new listing
   */
  async learnAll(
    envelopes: readonly Uint8Array[],
    options: LearnOptions,
    each: (entry: ReadEntry, envelope: Uint8Array) => void,
  ): Promise<{ news: number; hostile?: ListingRefusal }> {
    let news = 0
    const inTurn = <T>(work: () => T) => this.#deps.pace.run(siteOf(options), work)
    const judged: { entry: ReadEntry; envelope: Uint8Array; check: SignatureCheck }[] = []
    for (const envelope of envelopes) {
      const one = await inTurn(() => judgeListing(envelope, this.#judging(options)))
      if (one.ok) judged.push({ entry: one.entry, envelope, check: one.check() })
      else if (isHostile(one.error)) return { news, hostile: one }
    }
    const genuine = await this.#deps.signatures.check(judged.map(({ check }) => check))
    for (const [index, { entry, envelope }] of judged.entries()) {
      if (genuine[index] !== true) return { news, hostile: forged(entry) }
      if (!(await inTurn(() => this.#keep(entry, envelope, options)))) continue
      news++
      each(entry, envelope)
    }
    return { news }
  }

  /** Keeps a listing of our own. It is on disk before anybody sees it. @throws the error of the store */
  async keepOwn(entry: ReadEntry, envelope: Uint8Array): Promise<void> {
    await this.#deps.store.putOwn(rowOf(entry, envelope, { seenAt: this.#seenAt() }))
    this.#merge(entry)
  }

  /** Removes what can no longer matter, from memory and disk (T19). */
  purge(): void {
    const gone = this.#set.purge(this.#deps.clock.now())
    for (const entry of gone) this.#forget(entry)
  }

  /** A snapshot of what is held, for reconciliation. */
  view(): RangeView {
    this.purge()
    return this.#index.snapshot()
  }

  /** The envelopes of these elements, if they are still held and already written. */
  envelopes(keys: readonly ElementKey[]): Uint8Array[] {
    return keys.flatMap((key) => {
      const found = this.#deps.store.find(timeOf(key), key.subarray(TIME_BYTES))
      const held = found === undefined ? undefined : this.#set.get(found.id)
      const prefix = Buffer.from(key).toString('hex', TIME_BYTES, TIME_BYTES + HASH_BYTES)
      return found !== undefined && held?.hash.startsWith(prefix) === true ? [found.envelope] : []
    })
  }

  async write(teller?: Teller): Promise<void> {
    await this.#writer.write(teller && siteOf(teller))
  }

  async close(): Promise<void> {
    await this.#writer.close()
  }

  onChange(listener: ListingListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #judging(options: LearnOptions): JudgeOptions {
    const now = this.#deps.clock.now()
    return {
      now,
      wanted: (entry) => this.#isWelcome(entry, options, now) && (options.wanted?.(entry) ?? true),
    }
  }

  /** True if the entry is new and its teller has room for it. */
  #isWelcome(entry: ReadEntry, teller: Teller, now: UnixMs): boolean {
    const { outcome } = this.#set.judge(entry, now)
    if (outcome !== 'full' && !isNews(outcome)) return false
    const held = this.#set.get(entry.record.id)
    const told = this.#room.toldBy(entry, held, teller)
    return this.#room.fits(told, held) && this.#room.hasPlace(told, now)
  }

  #keep(entry: ReadEntry, envelope: Uint8Array, options: LearnOptions): boolean {
    // Check again: other listings of the same peer may be new since the signature check began.
    if (!this.#isWelcome(entry, options, this.#deps.clock.now()) || !this.#merge(entry, options)) return false
    const { indexLater = false } = options
    this.#deps.store.putLater(
      rowOf(entry, new Uint8Array(envelope), { seenAt: this.#seenAt(), indexLater }),
      siteOf(options),
    )
    this.#writer.writeSoon()
    return true
  }

  #seenAt(): UnixMs {
    const now = this.#deps.clock.now()
    return now < this.#openedAt + CATCH_UP_MS ? this.#openedAt : now
  }

  #merge(read: ReadEntry, teller: Teller = {}): boolean {
    const { record } = read
    const held = this.#set.get(record.id)
    const entry = this.#room.toldBy({ ...read, record: headOf(record) }, held, teller)
    const now = this.#deps.clock.now()
    for (const left of this.#room.makePlace(entry, now)) this.#forget(left)
    const { outcome, evicted } = this.#set.merge(entry, now)
    if (!isNews(outcome)) return false
    if (held !== undefined) this.#leave(held)
    if (evicted !== undefined) this.#forget(evicted)
    this.#index.add(keyOf(entry))
    this.#room.add(entry)
    // Listeners read the record at once, and it is not on disk yet.
    this.#records.remember(read)
    const wasShown = held !== undefined && isShown(held.record, now)
    for (const listener of this.#listeners) this.#tell(() => listener(record, wasShown))
    return true
  }

  #leave(entry: ListingEntry): void {
    this.#index.delete(keyOf(entry))
    this.#room.remove(entry)
  }

  #forget(entry: ListingEntry): void {
    this.#leave(entry)
    this.#records.forget(entry.record.id)
    this.#deps.store.removeLater(entry.record.id, entry.record.version, siteOf(entry))
    this.#writer.writeSoon()
  }

  #tell(listener: () => void): void {
    try {
      listener()
    } catch (error) {
      this.#deps.logger.error({ reason: reasonOf(error) }, 'a listener of the replica failed')
    }
  }

  #load(): void {
    const { clock, store } = this.#deps
    const now = clock.now()
    for (const { row, entry } of storedEntries(store)) {
      if (entry === undefined || !isNews(this.#set.merge(entry, now).outcome)) {
        store.removeLater(row.id, row.version)
        this.#writer.writeSoon()
        continue
      }
      this.#room.add(entry)
      if (row.opened !== undefined) this.#rewrite(row.opened)
    }
  }

  #rewrite(envelope: Uint8Array): void {
    const read = readListing(envelope)
    if (!read.ok) return
    this.#deps.store.putLater(rowOf(read.entry, envelope, { seenAt: this.#openedAt }))
    this.#writer.writeSoon()
  }
}

function isNews(outcome: string): boolean {
  return outcome === 'added' || outcome === 'replaced'
}
