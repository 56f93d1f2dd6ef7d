import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Stream } from '@libp2p/interface'
import type { Clock } from '../lib/clock.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import type { Host } from '../p2p/host.ts'
import { FramedStream } from '../protocols/framed-stream.ts'
import { pullListings, SYNC_PROTOCOL, SyncError, serveListings } from '../protocols/sync.ts'
import type { PullOutcome } from './catch-up.ts'
import type { ListingBook } from './listing-book.ts'
import { isHostile, type OpenedListing } from './signed-listing.ts'

export type ListingExchangeOptions = {
  /** What one peer may hand over in one exchange. */
  listingsMax: number
  bytesMax: number
  servesMax?: number
  /** Pulls one peer may ask for: a few at once, then one in ten seconds. */
  servesPerPeer?: number
}

export type ListingExchangeDeps = {
  host: Pick<Host, 'openStream'>
  clock: Clock
  logger: Logger
  learn(envelope: Uint8Array): Promise<OpenedListing>
  book: Pick<ListingBook, 'fingerprint' | 'write' | 'portions'>
}

/** Signatures checked before the event loop gets its turn: about 3 ms. */
const CHECKS_PER_TURN = 16
const SERVE_TIMEOUT_MS = 60_000

/** Full exchanges of listings with one peer, over `/node/sync/1.0.0`, in both roles. */
export class ListingExchange {
  readonly #deps: ListingExchangeDeps
  readonly #options: Required<ListingExchangeOptions>
  readonly #asked: TokenBuckets
  readonly #stopping = new AbortController()
  #serving = 0

  constructor(options: ListingExchangeOptions, deps: ListingExchangeDeps) {
    this.#deps = deps
    this.#options = { servesMax: 8, servesPerPeer: 12, ...options }
    this.#asked = new TokenBuckets({ burst: this.#options.servesPerPeer, perSecond: 0.1, keysMax: 4096 })
  }

  /** Client: merges what a connected peer holds, trusting it no more than a stranger. */
  async pull(peerId: string, signal: AbortSignal): Promise<PullOutcome> {
    const { host, book, logger } = this.#deps
    const { listingsMax, bytesMax } = this.#options
    const opened = await host.openStream({ peerId, addrs: [] }, SYNC_PROTOCOL, signal).catch(foreignOrThrow)
    if (opened === undefined) return 'foreign'
    const stream = new FramedStream(opened)
    try {
      let news = 0
      const limits = { fingerprint: book.fingerprint(), listingsMax, bytesMax, signal }
      const received = await pullListings(stream, limits, async (envelopes) => {
        news += await this.#learnAll(envelopes, signal)
      })
      await stream.close(signal)
      if (received === 0) return 'equal'
      return news > 0 ? 'news' : 'idle'
    } catch (error) {
      stream.abort(new Error('the exchange of listings failed', { cause: error }))
      if (!isPeersFault(error)) throw error
      logger.warn({ peer: peerId, reason: reasonOf(error).slice(0, 200) }, 'a peer hands over false listings')
      return 'hostile'
    }
  }

  /** Server: a stream handler. Over its limits the stream is reset, and the peer comes again later. */
  serve(opened: Stream, peerId: string): void {
    const stream = new FramedStream(opened)
    void this.#answer(stream, peerId).catch((error: unknown) => {
      this.#deps.logger.debug({ peer: peerId, reason: reasonOf(error) }, 'a peer was not given our listings')
      stream.abort(new Error('no listings now', { cause: error }))
    })
  }

  stop(): void {
    this.#stopping.abort(new Error('the replica is stopping'))
  }

  async #answer(stream: FramedStream, peerId: string): Promise<void> {
    const { book, clock } = this.#deps
    this.#stopping.signal.throwIfAborted()
    if (this.#serving >= this.#options.servesMax) throw new Error('too many exchanges at once')
    if (!this.#asked.take(peerId, 1, clock.now())) throw new Error('it asks too often')
    this.#serving++
    try {
      const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(SERVE_TIMEOUT_MS)])
      // The disk serves, so that memory need not hold envelopes: it must have all that the fingerprint speaks for.
      await book.write()
      const [fingerprint, portions] = [() => book.fingerprint(), () => book.portions()]
      await serveListings(stream, { fingerprint, portions, signal })
      await stream.close(signal)
    } finally {
      this.#serving--
    }
  }

  async #learnAll(envelopes: Uint8Array[], signal: AbortSignal): Promise<number> {
    let news = 0
    for (const [index, envelope] of envelopes.entries()) {
      if (index % CHECKS_PER_TURN === 0) {
        await nextTurn()
        signal.throwIfAborted()
      }
      const opened = await this.#deps.learn(envelope)
      if (opened.ok) news++
      else if (isHostile(opened.error)) throw new CodedError('LISTING_FALSE', `${opened.error}: ${opened.reason}`)
    }
    return news
  }
}

function foreignOrThrow(error: unknown): undefined {
  if (error instanceof CodedError && error.code === 'PROTOCOL_UNSUPPORTED') return undefined
  throw error
}

function isPeersFault(error: unknown): boolean {
  if (error instanceof SyncError) return error.code !== 'SYNC_CUT'
  return error instanceof CodedError && error.code === 'LISTING_FALSE'
}
