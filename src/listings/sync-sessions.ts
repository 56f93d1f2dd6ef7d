import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { CodedError } from '../lib/errors.ts'
import { splitBatches } from '../protocols/sync/batch.ts'
import { compareKeys, type ElementKey } from '../protocols/sync/reconcile/element-key.ts'
import { ReconcileError } from '../protocols/sync/reconcile/reconcile-error.ts'
import { Reconciliation } from '../protocols/sync/reconcile/reconciliation.ts'
import { SALT_BYTES } from '../protocols/sync/reconcile/session-hash.ts'
import { SYNC_BATCH_BYTES_MAX, SYNC_BATCH_LISTINGS_MAX, type SyncSide } from '../protocols/sync/sync.ts'
import type { ListingBook } from './replica-state.ts'
import type { ReadEntry } from './signed-listing.ts'

export type ListingSyncOptions = {
  /** What the peer may hand over in one session. */
  listingsMax: number
  bytesMax: number
  peerId: string
  /** Where it connects from, as far as it is known. */
  site?: string | undefined
  /** Whether anything is taken from this peer. */
  takes: boolean
}

export type ListingSyncDeps = {
  book: Pick<ListingBook, 'view' | 'envelopes' | 'learnAll' | 'write'>
  /** What the peer has brought and was news; without its envelope where a whole market comes. */
  learnt(entry: ReadEntry, envelope?: Uint8Array): void
}

/** Elements looked up at once. */
const LOOKED_UP_AT_ONCE = 64
/**
 * The newest come first: where they are of no use, the others are not waited for. For each change there is an old version
 * as well as a new one; more than that is somebody's past.
 */
const USELESS_MAX = 64
/** News that can be searched at once. A whole market is indexed behind, as that takes longer than all else about it. */
const INDEXED_AT_ONCE_MAX = 500

/** One side of one session: what of the replica it reads and changes. */
export class ListingSync implements SyncSide {
  readonly #deps: ListingSyncDeps
  readonly #options: ListingSyncOptions
  readonly #reconciliation: Reconciliation
  #have: ElementKey[] = []
  #bytes = 0
  #received = 0
  /** Of what was received, how many have been looked at. */
  #looked = 0
  #news = 0
  #learning: Promise<void> = Promise.resolve()
  #writing: Promise<void> = Promise.resolve()

  constructor(options: ListingSyncOptions, deps: ListingSyncDeps) {
    this.#options = options
    this.#deps = deps
    this.#reconciliation = new Reconciliation(deps.book.view())
  }

  get takes(): boolean {
    return this.#options.takes
  }

  /** What the peer has handed over. */
  get received(): number {
    return this.#received
  }

  get news(): number {
    return this.#news
  }

  open(): Uint8Array {
    return this.#reconciliation.open({ salt: randomBytes(SALT_BYTES) })
  }

  hear(message: Uint8Array): { say?: Uint8Array; last: boolean } | 'enough' {
    try {
      const { have, reply } = this.#reconciliation.receive(message)
      for (const key of have) this.#have.push(key)
      return { ...(reply === undefined ? {} : { say: reply }), last: this.#reconciliation.done }
    } catch (error) {
      if (error instanceof ReconcileError && error.code === 'RECONCILE_LIMIT') return 'enough'
      throw error
    }
  }

  /** The newest first. What has been replaced meanwhile, as by what the peer has brought, is left out. */
  batches(): Generator<Uint8Array[]> {
    const limits = { itemsMax: SYNC_BATCH_LISTINGS_MAX, bytesMax: SYNC_BATCH_BYTES_MAX }
    return splitBatches(this.#envelopes(), limits)
  }

  /** @throws CodedError `LISTING_FALSE` for what only a hostile peer hands over */
  async take(envelopes: Uint8Array[]): Promise<boolean> {
    const { listingsMax, bytesMax } = this.#options
    // Batches that are known already cost no signature, and so no turn of the event loop.
    await nextTurn()
    this.#received += envelopes.length
    this.#bytes += envelopes.reduce((sum, { length }) => sum + length, 0)
    const before = this.#learning
    this.#learning = this.#learn(envelopes)
    // Awaited with the next batch, or at the end.
    this.#learning.catch(() => {})
    await before
    if (this.#received > listingsMax || this.#bytes > bytesMax) return false
    return this.#looked - this.#news <= USELESS_MAX + 2 * this.#news
  }

  settle(): Promise<void> {
    return this.#learning
  }

  /** While the signatures of one batch are checked, the one before is merged and written. */
  async #learn(envelopes: Uint8Array[]): Promise<void> {
    const { book, learnt } = this.#deps
    const { peerId, site } = this.#options
    const indexLater = this.#news >= INDEXED_AT_ONCE_MAX
    const { news, hostile } = await book.learnAll(envelopes, { from: peerId, site, indexLater }, (entry, envelope) =>
      learnt(entry, indexLater ? undefined : envelope),
    )
    this.#news += news
    this.#looked += envelopes.length
    // What waits to be written is in memory: a batch or two, not a market.
    await this.#writing
    this.#writing = book.write()
    if (hostile !== undefined) throw new CodedError('LISTING_FALSE', `${hostile.error}: ${hostile.reason}`)
  }

  *#envelopes(): Generator<Uint8Array> {
    const keys = this.#have.sort((a, b) => compareKeys(b, a))
    for (let from = 0; from < keys.length; from += LOOKED_UP_AT_ONCE) {
      yield* this.#deps.book.envelopes(keys.slice(from, from + LOOKED_UP_AT_ONCE))
    }
  }
}
