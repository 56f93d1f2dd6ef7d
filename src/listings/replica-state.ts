import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Pace } from '../lib/pace.ts'
import type { SignatureCheck } from '../p2p/signature.ts'
import type { SignaturePool } from '../p2p/signature-pool.ts'
import { type ElementKey, HASH_BYTES, TIME_BYTES, timeOf } from '../protocols/sync/reconcile/element-key.ts'
import type { RangeIndex, RangeView } from '../protocols/sync/reconcile/range-index.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingStore } from '../store/listings.ts'
import { ListingRoom, type ListingSource, siteOf } from './room.ts'
import { ListingRows, rowOf } from './rows.ts'
import { headOf, indexOf, isShown, keyOf, type ListingEntry, ListingSet } from './set.ts'
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

type ReplicaStateOptions = {
  listingsMax: number
  /** Bytes of all envelopes together. Bounds memory and disk. */
  bytesMax: number
  ownSellerId: string
  /** How long listings of others may wait to be written together, in ms. */
  writeMs: number
}

type ReplicaStateDeps = {
  store: ListingStore
  /** Checks signatures in batches of hundreds. */
  signatures: Pick<SignaturePool, 'check'>
  clock: Clock
  logger: Logger
  pace: Pace
  /** True if this node has called the agent. The agent's listing is then never pushed out. */
  hasCalled?: ((agentId: string) => boolean) | undefined
}

/** `isHeard`: a peer sent this version. Otherwise this node signed it. */
export type ListingListener = (record: ListingRecord, wasShown: boolean, isHeard?: boolean) => void

type LearnOptions = ListingSource & {
  /** May refuse a listing before its signature is checked. */
  wanted?: (entry: ReadEntry) => boolean
  /** True if searches need not find it at once. */
  indexLater?: boolean
}

/** Listings learned this soon after a start count as first seen at the start: nobody knows which is older. */
const CATCH_UP_MS = 10 * 60 * 1000
/** Changes from one address that wait for the disk: as many as it may send at once. Catch-up brings the rest. */
const WAITING_MAX = 4096

/**
 * The set of listings. Memory holds the head of each listing and the index for reconciliation; the disk holds the rows.
 * Everything from outside is opened and checked here.
 */
export class ReplicaState {
  readonly #deps: ReplicaStateDeps
  readonly #listeners = new Set<ListingListener>()
  readonly #set: ListingSet
  readonly #index: RangeIndex
  readonly #room: ListingRoom
  readonly #rows: ListingRows
  readonly #ownSellerId: string
  readonly #openedAt: UnixMs

  constructor(options: ReplicaStateOptions, deps: ReplicaStateDeps) {
    this.#deps = deps
    this.#set = new ListingSet(options)
    this.#room = new ListingRoom(options, {
      set: this.#set,
      logger: deps.logger,
      isPinned: ({ record }) => record.seller_id === options.ownSellerId || deps.hasCalled?.(record.id) === true,
    })
    this.#rows = new ListingRows(options, deps)
    this.#ownSellerId = options.ownSellerId
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
    return held === undefined ? undefined : this.#rows.recordOf(held)
  }

  /** The highest version that this node has signed, as far as it knows. */
  lastOwnVersion(): number {
    const held = this.#set.entriesOf(this.#ownSellerId).map(({ record }) => record.version)
    return Math.max(this.#deps.store.ownVersion(), ...held)
  }

  /** True if so much from this party waits for the disk that nothing more is taken from it by gossip. */
  isBehind(party: string): boolean {
    return this.#deps.store.waiting(party) >= WAITING_MAX
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
   * @param each is called with the envelope of every new listing
   */
  async learnAll(
    envelopes: readonly Uint8Array[],
    options: LearnOptions,
    each: (envelope: Uint8Array) => void,
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
      each(envelope)
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

  /** Writes what is waiting, of all or of one source. */
  async write(source?: ListingSource): Promise<void> {
    await this.#rows.write(source && siteOf(source))
  }

  async close(): Promise<void> {
    await this.#rows.close()
  }

  onChange(listener: ListingListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #judging(options: LearnOptions): JudgeOptions {
    const now = this.#deps.clock.now()
    return { now, wanted: (entry) => this.#isWelcome(entry, options, now) && (options.wanted?.(entry) ?? true) }
  }

  /** True if the entry is new and its source has room for it. */
  #isWelcome(entry: ReadEntry, source: ListingSource, now: UnixMs): boolean {
    const { outcome } = this.#set.judge(entry, now)
    if (outcome !== 'full' && !isNews(outcome)) return false
    const held = this.#set.get(entry.record.id)
    const sourced = this.#room.withSource(entry, held, source)
    return this.#room.fits(sourced, held) && this.#room.hasPlace(sourced, now)
  }

  #keep(entry: ReadEntry, envelope: Uint8Array, options: LearnOptions): boolean {
    // Check again: other listings of the same peer may be new since the signature check began.
    if (!this.#isWelcome(entry, options, this.#deps.clock.now()) || !this.#merge(entry, options)) return false
    const { indexLater = false } = options
    this.#rows.put(rowOf(entry, new Uint8Array(envelope), { seenAt: this.#seenAt(), indexLater }), siteOf(options))
    return true
  }

  #seenAt(): UnixMs {
    const now = this.#deps.clock.now()
    return now < this.#openedAt + CATCH_UP_MS ? this.#openedAt : now
  }

  /** @param source undefined for a listing of our own */
  #merge(read: ReadEntry, source?: ListingSource): boolean {
    const { record } = read
    const held = this.#set.get(record.id)
    const entry = this.#room.withSource({ ...read, record: headOf(record) }, held, source ?? {})
    const now = this.#deps.clock.now()
    for (const left of this.#room.makePlace(entry, now)) this.#forget(left)
    const { outcome, evicted } = this.#set.merge(entry, now)
    if (!isNews(outcome)) return false
    if (held !== undefined) this.#leave(held)
    if (evicted !== undefined) this.#forget(evicted)
    this.#index.add(keyOf(entry))
    this.#room.add(entry)
    // Listeners read the record at once, and it is not on disk yet.
    this.#rows.remember(read)
    const wasShown = held !== undefined && isShown(held.record, now)
    for (const listener of this.#listeners) this.#tell(() => listener(record, wasShown, source !== undefined))
    return true
  }

  #leave(entry: ListingEntry): void {
    this.#index.delete(keyOf(entry))
    this.#room.remove(entry)
  }

  #forget(entry: ListingEntry): void {
    this.#leave(entry)
    this.#rows.remove(entry.record, siteOf(entry))
  }

  #tell(listener: () => void): void {
    try {
      listener()
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'a listener of the replica failed')
    }
  }

  #load(): void {
    const now = this.#deps.clock.now()
    for (const { row, entry } of this.#rows.load()) {
      if (entry === undefined || !isNews(this.#set.merge(entry, now).outcome)) {
        this.#rows.remove(row)
        continue
      }
      this.#room.add(entry)
      // An earlier version of the code wrote this row.
      const read = row.opened && readListing(row.opened)
      if (read?.ok === true) this.#rows.put(rowOf(read.entry, row.opened!, { seenAt: this.#openedAt }))
    }
  }
}

function isNews(outcome: string): boolean {
  return outcome === 'added' || outcome === 'replaced'
}
