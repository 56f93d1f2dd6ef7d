import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { CodedError } from '../lib/errors.ts'
import { splitBatches } from '../protocols/sync/batch.ts'
import { compareKeys, type ElementKey } from '../protocols/sync/reconcile/element-key.ts'
import { ReconcileError } from '../protocols/sync/reconcile/reconcile-error.ts'
import { Reconciliation } from '../protocols/sync/reconcile/reconciliation.ts'
import { SALT_BYTES } from '../protocols/sync/reconcile/session-hash.ts'
import { SYNC_BATCH_BYTES_MAX, SYNC_BATCH_LISTINGS_MAX, type SyncSide } from '../protocols/sync/sync.ts'
import type { ListingGossip } from './gossip.ts'
import type { ReplicaState } from './replica-state.ts'

type ListingSideOptions = {
  /** Listings the peer may send in one session. */
  listingsMax: number
  bytesMax: number
  peerId: string
  /** The peer's site, if it is known. */
  site?: string | undefined
  /** True if listings are accepted from this peer. */
  takes: boolean
}

type ListingSideDeps = {
  state: Pick<ReplicaState, 'view' | 'envelopes' | 'learnAll' | 'write'>
  gossip: Pick<ListingGossip, 'noteCaughtUp'>
}

/** Elements looked up at once. */
const LOOKED_UP_AT_ONCE = 64
/**
 * Useless listings one session may bring, in addition to two for each new listing. Beyond it the session takes no more.
 * The newest come first, so later listings would be useless too. A peer may send one old version for each change it
 * missed. More than that means that its replica is old.
 */
const USELESS_MAX = 64
/**
 * New listings that searches find at once. Indexing takes longer than everything else, so a whole market is indexed
 * later.
 */
const INDEXED_AT_ONCE_MAX = 500

/** One side of one session: the parts of the replica that the session reads and changes. */
export class ListingSide implements SyncSide {
  readonly #deps: ListingSideDeps
  readonly #options: ListingSideOptions
  readonly takes: boolean
  readonly #reconciliation: Reconciliation
  #have: ElementKey[] = []
  #bytes = 0
  /** How many listings the peer has sent, and how many of them were new. */
  received = 0
  news = 0
  /** How many of the received listings have been examined. */
  #looked = 0
  #learning: Promise<void> = Promise.resolve()
  #writing: Promise<void> = Promise.resolve()

  constructor(options: ListingSideOptions, deps: ListingSideDeps) {
    this.#options = options
    this.takes = options.takes
    this.#deps = deps
    this.#reconciliation = new Reconciliation(deps.state.view())
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

  /**
   * The newest first. Listings that were replaced since the reconciliation, for example by the peer's own, are left
   * out.
   */
  batches(): Generator<Uint8Array[]> {
    const limits = { itemsMax: SYNC_BATCH_LISTINGS_MAX, bytesMax: SYNC_BATCH_BYTES_MAX }
    return splitBatches(this.#envelopes(), limits)
  }

  /** @throws CodedError `LISTING_FALSE` for what only a hostile peer sends */
  async take(envelopes: Uint8Array[]): Promise<boolean> {
    const { listingsMax, bytesMax } = this.#options
    // Known batches need no signature check, and so would never let the event loop turn.
    await nextTurn()
    this.received += envelopes.length
    this.#bytes += envelopes.reduce((sum, { length }) => sum + length, 0)
    const before = this.#learning
    this.#learning = this.#learn(envelopes)
    // Errors are handled when the next batch, or `settle`, awaits `#learning`.
    this.#learning.catch(() => {})
    await before
    if (this.received > listingsMax || this.#bytes > bytesMax) return false
    return this.#looked - this.news <= USELESS_MAX + 2 * this.news
  }

  settle(): Promise<void> {
    return this.#learning
  }

  /** Merges and writes one batch while the signatures of the next batch are checked. */
  async #learn(envelopes: Uint8Array[]): Promise<void> {
    const { state, gossip } = this.#deps
    const { peerId, site } = this.#options
    const indexLater = this.news >= INDEXED_AT_ONCE_MAX
    const { news, hostile } = await state.learnAll(envelopes, { from: peerId, site, indexLater }, (envelope) => {
      if (!indexLater) gossip.noteCaughtUp(envelope)
    })
    this.news += news
    this.#looked += envelopes.length
    // Listings waiting to be written are in memory. Wait, so that they are at most a batch or two and never a whole
    // market.
    await this.#writing
    this.#writing = state.write({ from: peerId, site })
    if (hostile !== undefined) throw new CodedError('LISTING_FALSE', `${hostile.error}: ${hostile.reason}`)
  }

  *#envelopes(): Generator<Uint8Array> {
    const keys = this.#have.sort((a, b) => compareKeys(b, a))
    for (let from = 0; from < keys.length; from += LOOKED_UP_AT_ONCE) {
      yield* this.#deps.state.envelopes(keys.slice(from, from + LOOKED_UP_AT_ONCE))
    }
  }
}
