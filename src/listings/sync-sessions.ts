import type { Stream } from '@libp2p/interface'
import type { Clock } from '../lib/clock.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { orAborted, within } from '../lib/wait.ts'
import type { Host } from '../p2p/host.ts'
import { FramedStream } from '../protocols/framed-stream.ts'
import { ReconcileError } from '../protocols/sync/reconcile/reconcile-error.ts'
import { openSync, SYNC_PROTOCOL, SyncError, serveSync } from '../protocols/sync/sync.ts'
import type { ListingGossip } from './gossip.ts'
import type { ReplicaState } from './replica-state.ts'
import { ListingSide } from './sync-side.ts'

type SyncSessionsOptions = {
  ownId: string
  /** Listings one peer may send in one session. */
  listingsMax: number
  bytesMax: number
  stepTimeoutMs?: number
}

type SyncSessionsDeps = {
  host: Pick<Host, 'openStream'> & Partial<Pick<Host, 'siteOf'>>
  state: Pick<ReplicaState, 'write' | 'view' | 'envelopes' | 'learnAll'>
  gossip: Pick<ListingGossip, 'noteCaughtUp'>
  clock: Clock
  logger: Logger
}

/**
 * How a session ended.
 *
 * - `equal`: the peer had nothing to send.
 * - `news`: the peer sent something new.
 * - `idle`: the peer sent listings, but none was new.
 * - `foreign`: the peer does not speak the protocol.
 * - `hostile`: the peer sent what no honest peer sends.
 *
 * A peer that does not answer for now causes an exception.
 */
export type SyncOutcome = 'equal' | 'news' | 'idle' | 'foreign' | 'hostile'

/** Enough for a hundred thousand listings over a slow line. The next session continues where this one was cut. */
const SESSION_TIMEOUT_MS = 120_000
/** How long a session waits for the disk before it begins. */
const WRITE_WAIT_MS = 2_000
const HOUR_S = 60 * 60
const PEERS_MAX = 4096
/** Sessions served at once. */
const SERVED_MAX = 8
/** Sessions one peer may ask for: this many at once, then one every 10 s. */
const ASKED_BY_PEER = { burst: 12, perSecond: 0.1, keysMax: PEERS_MAX }

type Session = { stream: FramedStream; done: Promise<SyncOutcome> }

/** Runs sync sessions over `/node/sync/1.0.0` in both roles, one at a time with each peer. */
export class SyncSessions {
  readonly #deps: SyncSessionsDeps
  readonly #options: Required<SyncSessionsOptions>
  readonly #asked: TokenBuckets
  /** One token an hour. A peer that sent false listings has no token. */
  readonly #trusted: TokenBuckets
  /**
   * Each session in which a client sends only known listings costs it one token. A client without tokens may still read
   * from this node.
   */
  readonly #useful: TokenBuckets
  readonly #stopping = new AbortController()
  readonly #asking = new Map<string, FramedStream>()
  readonly #serving = new Map<string, Session>()

  constructor(options: SyncSessionsOptions, deps: SyncSessionsDeps) {
    this.#deps = deps
    this.#options = { stepTimeoutMs: 10_000, ...options }
    this.#asked = new TokenBuckets(ASKED_BY_PEER)
    this.#trusted = new TokenBuckets({ burst: 1, perSecond: 1 / HOUR_S, keysMax: PEERS_MAX })
    this.#useful = new TokenBuckets({ burst: 4, perSecond: 6 / HOUR_S, keysMax: PEERS_MAX })
  }

  /** Client: becomes equal with a connected peer. The peer is trusted no more than a stranger. */
  async meet(peerId: string, signal: AbortSignal): Promise<SyncOutcome> {
    const { host, clock } = this.#deps
    if (!this.#trusted.has(peerId, 1, clock.now())) return 'hostile'
    // The peer opened a session itself. Both sides learn in a session, so that session is enough.
    const served = this.#serving.get(peerId)
    if (served !== undefined) return served.done
    const opened = await host.openStream({ peerId, addrs: [] }, SYNC_PROTOCOL, signal).catch(foreignOrThrow)
    if (opened === undefined) return 'foreign'
    const stream = new FramedStream(opened)
    this.#asking.set(peerId, stream)
    try {
      const side = this.#side(peerId, { takes: true })
      const limit = AbortSignal.any([this.#stopping.signal, signal, AbortSignal.timeout(SESSION_TIMEOUT_MS)])
      await openSync(stream, side, { signal: limit, stepTimeoutMs: this.#options.stepTimeoutMs })
      await stream.close(limit)
      return outcomeOf(side)
    } catch (error) {
      stream.abort(new Error('the session failed', { cause: error }))
      const instead = this.#serving.get(peerId)
      if (instead !== undefined) return instead.done
      return this.#blame(peerId, error)
    } finally {
      this.#asking.delete(peerId)
    }
  }

  /** Server: handles a stream. Over the limits the stream is reset, and the peer tries again later. */
  serve(opened: Stream, peerId: string): void {
    const stream = new FramedStream(opened)
    try {
      this.#admit(peerId)
    } catch (error) {
      this.#deps.logger.debug({ peer_id: peerId, err: error }, 'a session was refused')
      stream.abort(new Error('no session now', { cause: error }))
      return
    }
    const done = this.#answer(stream, peerId).finally(() => this.#serving.delete(peerId))
    this.#serving.set(peerId, { stream, done })
    done.catch((error: unknown) => {
      this.#deps.logger.debug({ peer_id: peerId, err: error }, 'a session that a peer has opened failed')
    })
  }

  stop(): void {
    this.#stopping.abort(new Error('the replica is stopping'))
  }

  #admit(peerId: string): void {
    const { clock } = this.#deps
    const now = clock.now()
    this.#stopping.signal.throwIfAborted()
    if (this.#serving.has(peerId)) throw new Error('it has a session already')
    if (this.#serving.size >= SERVED_MAX) throw new Error('too many sessions at once')
    if (!this.#trusted.has(peerId, 1, now)) throw new Error('it has sent false listings')
    if (!this.#asked.take(peerId, 1, now)) throw new Error('it asks too often')
    // Both peers opened a session. The session opened by the peer with the smaller id continues.
    const asking = this.#asking.get(peerId)
    if (asking === undefined) return
    if (this.#options.ownId < peerId) throw new Error('a session with it runs already')
    asking.abort(new Error('the peer has opened a session itself'))
  }

  async #answer(stream: FramedStream, peerId: string): Promise<SyncOutcome> {
    const { state, clock } = this.#deps
    try {
      const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(SESSION_TIMEOUT_MS)])
      // Envelopes are read from disk. Write first, so that the disk has what the index has. Others can keep this node
      // writing, so the wait is bounded: listings that are not on disk yet are handed over another time (T31).
      await orAborted(within(WRITE_WAIT_MS, state.write()), signal)
      const side = this.#side(peerId, { takes: this.#useful.has(peerId, 1, clock.now()) })
      await serveSync(stream, side, { signal, stepTimeoutMs: this.#options.stepTimeoutMs })
      await stream.close(signal)
      const outcome = outcomeOf(side)
      if (outcome === 'idle') this.#useful.take(peerId, 1, clock.now())
      return outcome
    } catch (error) {
      stream.abort(new Error('the session failed', { cause: error }))
      return this.#blame(peerId, error)
    }
  }

  #side(peerId: string, { takes }: { takes: boolean }): ListingSide {
    const { listingsMax, bytesMax } = this.#options
    const site = this.#deps.host.siteOf?.(peerId)
    return new ListingSide({ peerId, site, listingsMax, bytesMax, takes }, this.#deps)
  }

  /** @throws the error, if it is not the peer's fault */
  #blame(peerId: string, error: unknown): SyncOutcome {
    if (!isPeersFault(error)) throw error
    const reason = reasonOf(error).slice(0, 200)
    this.#deps.logger.warn({ peer_id: peerId, reason }, 'a peer sends false listings')
    this.#trusted.drain(peerId, this.#deps.clock.now())
    return 'hostile'
  }
}

function outcomeOf({ received, news }: ListingSide): SyncOutcome {
  if (received === 0) return 'equal'
  return news > 0 ? 'news' : 'idle'
}

function foreignOrThrow(error: unknown): undefined {
  if (error instanceof CodedError && error.code === 'PROTOCOL_UNSUPPORTED') return undefined
  throw error
}

function isPeersFault(error: unknown): boolean {
  if (error instanceof ReconcileError) return true
  if (error instanceof SyncError) return error.code !== 'SYNC_CUT'
  return error instanceof CodedError && error.code === 'LISTING_FALSE'
}
