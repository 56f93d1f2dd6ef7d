import { createHash } from 'node:crypto'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Pace } from '../lib/pace.ts'
import { doubledMs } from '../lib/retry.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { pause } from '../lib/wait.ts'
import type { Host, Verdict } from '../p2p/host.ts'
import type { SignatureCheck } from '../p2p/signature.ts'
import type { SignaturePool } from '../p2p/signature-pool.ts'
import { decodeBatch, encodeBatch, splitBatches } from '../protocols/sync/batch.ts'
import { GOSSIP_BYTES_MAX } from '../schema/limits.ts'
import { LISTING_BYTES_MAX } from '../schema/listing.ts'
import type { ReplicaState } from './replica-state.ts'
import type { ListingEntry } from './set.ts'
import { isHostile, readListing } from './signed-listing.ts'

export const LISTINGS_TOPIC = '/stoa/listings/1'
const MESSAGE_LISTINGS_MAX = 64
const CAUGHT_UP_MAX = 4096
const STOP_TRIES = 5
/** The longest wait before listings that no peer took are offered again. */
const RETRY_MS_MAX = 30_000
/**
 * What all neighbors at one address may send together, as a multiple of what one neighbor may, because identities cost nothing
 * (T29).
 */
const SITE_SHARE = { burst: 2, perSecond: 4 }

export type ListingGossipOptions = {
  /** Own listings that change within this time are sent together. */
  gatherMs?: number
  /** Wait before listings that no peer took are offered again. It doubles up to `RETRY_MS_MAX`. */
  retryMs?: number
  /**
   * Listings one neighbor may send, its own or others'. The burst is room for a whole market, followed by a slow rate.
   */
  peerBurst?: number
  peerPerSecond?: number
  /**
   * Listings one seller may change, no matter which neighbor sends them. The burst is all its listings a few times,
   * followed by one listing every 2 s.
   */
  sellerBurst?: number
  sellerPerSecond?: number
  keysMax?: number
}

type ListingGossipDeps = {
  host: Pick<Host, 'publish'> & Partial<Pick<Host, 'siteOf'>>
  state: Pick<ReplicaState, 'learn' | 'isBehind'>
  clock: Clock
  logger: Logger
  signatures: Pick<SignaturePool, 'check'>
  pace: Pace
}

/**
 * Sends and receives listings by gossip. All nodes share one topic. A message is a batch of envelopes, and each batch
 * is judged before it is passed on.
 */
export class ListingGossip {
  readonly #deps: ListingGossipDeps
  readonly #timing: { gatherMs: number; retryMs: number }
  readonly #peers: TokenBuckets
  readonly #sites: TokenBuckets
  readonly #sellers: TokenBuckets
  /** By listing id, so that only the latest version is sent. */
  #outgoing = new Map<string, Uint8Array>()
  /** Hashes of envelopes that arrived by catch-up but not yet by gossip. */
  readonly #caughtUp = new BoundedMap<string, true>(CAUGHT_UP_MAX)
  #timer: NodeJS.Timeout | undefined
  #flushing: Promise<void> | undefined
  #refused = 0
  #stopped = false

  constructor(options: ListingGossipOptions, deps: ListingGossipDeps) {
    const { gatherMs = 20, peerBurst = 2048, peerPerSecond = 32, sellerBurst = 256, sellerPerSecond = 0.5 } = options
    const { retryMs = 500, keysMax = 4096 } = options
    const site = { burst: SITE_SHARE.burst * peerBurst, perSecond: SITE_SHARE.perSecond * peerPerSecond }
    this.#deps = deps
    this.#timing = { gatherMs, retryMs }
    this.#peers = new TokenBuckets({ burst: peerBurst, perSecond: peerPerSecond, keysMax })
    this.#sites = new TokenBuckets({ ...site, keysMax })
    this.#sellers = new TokenBuckets({ burst: sellerBurst, perSecond: sellerPerSecond, keysMax })
  }

  /** Sends one of our own listings with the next message. */
  announce(id: string, envelope: Uint8Array): void {
    this.#outgoing.set(id, envelope)
    this.#flushIn(this.#timing.gatherMs)
  }

  /**
   * Offers the listings that nobody has taken to a new neighbor. It waits a moment, because gossip with the neighbor is
   * not set up at once.
   */
  noteConnected(): void {
    this.#refused = 0
    if (this.#outgoing.size === 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#flushIn(this.#timing.retryMs)
  }

  /** Offers what is waiting, up to 5 times while peers are connected. After that nothing more is sent. */
  async stop(connected: () => boolean): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#flush()
    for (let tries = 1; tries < STOP_TRIES && this.#outgoing.size > 0 && connected(); tries++) {
      await pause(this.#timing.retryMs / 2)
      await this.#flush()
    }
  }

  #flushIn(ms: number): void {
    if (!this.#stopped) this.#timer ??= setTimeout(() => void this.#flush(), ms).unref()
  }

  /** Never throws. Only one flush runs at a time, so that a slow flush does not send a listing twice. */
  async #flush(): Promise<void> {
    this.#timer = undefined
    while (this.#flushing !== undefined) await this.#flushing
    this.#flushing = this.#send().finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  /**
   * Sends what is waiting. A batch that no peer takes keeps waiting. One peer is enough, because it passes the batch
   * on.
   */
  async #send(): Promise<void> {
    const waiting = [...this.#outgoing]
    const limits = { itemsMax: MESSAGE_LISTINGS_MAX, bytesMax: GOSSIP_BYTES_MAX }
    for (const batch of splitBatches(Array.from(this.#outgoing.values()), limits)) {
      if ((await this.#publish(batch)) === 0) continue
      for (const [id, envelope] of waiting) {
        if (batch.includes(envelope) && this.#outgoing.get(id) === envelope) this.#outgoing.delete(id)
      }
    }
    if (this.#outgoing.size === 0) {
      this.#refused = 0
      return
    }
    this.#flushIn(doubledMs(++this.#refused, { firstMs: this.#timing.retryMs, mostMs: RETRY_MS_MAX }))
  }

  async #publish(batch: Uint8Array[]): Promise<number> {
    try {
      return await this.#deps.host.publish(LISTINGS_TOPIC, encodeBatch(batch))
    } catch (error) {
      this.#deps.logger.warn({ err: error, count: batch.length }, 'listings were not gossiped')
      return 0
    }
  }

  /**
   * Records an envelope that arrived by catch-up. When gossip brings it too, it is not new here, but other nodes may
   * still need it. It is then passed on once.
   */
  noteCaughtUp(envelope: Uint8Array): void {
    this.#caughtUp.set(hashOf(envelope), true)
  }

  /**
   * Judges a message (T3). `accept` passes it on. `ignore` does not. `reject` also lowers the neighbor's score.
   *
   * A batch is passed on if it has something new and every signature in it is genuine. This includes listings that we
   * already know and listings too old or too new for us. Nodes that do not know them check them, and would blame this
   * node for passing them on. New listings over a rate are dropped here, and catch-up brings them later.
   */
  async receive(message: Uint8Array, fromPeerId: string): Promise<Verdict> {
    const { host, state, clock } = this.#deps
    const envelopes = decodeMessage(message)
    if (envelopes === undefined) return this.#reject(fromPeerId, 'the message is no list of listings')
    // Check the rates before reading any listing, so that a refused message costs nothing.
    const site = host.siteOf?.(fromPeerId)
    const isInShare =
      this.#peers.take(fromPeerId, envelopes.length, clock.now()) &&
      (site === undefined || this.#sites.take(site, envelopes.length, clock.now()))
    if (!isInShare || state.isBehind(site ?? fromPeerId)) return 'ignore'

    const wanted = ({ record }: ListingEntry) => this.#sellers.has(record.seller_id, 1, clock.now())
    let verdict: Verdict = 'ignore'
    const unchecked: Uint8Array[] = []
    for (const envelope of envelopes) {
      const opened = await state.learn(envelope, { wanted, from: fromPeerId, site })
      if (opened.ok) {
        // Charge the seller only after its signature was checked. Otherwise anybody could use up a seller's share.
        this.#sellers.take(opened.entry.record.seller_id, 1, clock.now())
        verdict = 'accept'
      } else if (isHostile(opened.error)) {
        return this.#reject(fromPeerId, `${opened.error}: ${opened.reason}`)
      } else if (opened.error === 'UNWANTED' && this.#caughtUp.delete(hashOf(envelope))) {
        verdict = 'accept'
      } else unchecked.push(envelope)
    }
    if (verdict === 'accept' && !(await this.#areGenuine(unchecked, site ?? fromPeerId))) {
      return this.#reject(fromPeerId, 'FORGED: a listing beside the news is not signed by its seller')
    }
    return verdict
  }

  async #areGenuine(envelopes: readonly Uint8Array[], party: string): Promise<boolean> {
    const { pace, signatures } = this.#deps
    const checks: SignatureCheck[] = []
    for (const envelope of envelopes) {
      const read = await pace.run(party, () => readListing(envelope))
      if (!read.ok) return false
      checks.push(read.check())
    }
    return (await signatures.check(checks)).every((isGenuine) => isGenuine)
  }

  /** Ignores the peer for a while, so that its false listings cost little. */
  #reject(peerId: string, reason: string): Verdict {
    this.#deps.logger.warn({ peer_id: peerId, reason: reason.slice(0, 200) }, 'a peer gossips false listings')
    this.#peers.drain(peerId, this.#deps.clock.now())
    return 'reject'
  }
}

function hashOf(envelope: Uint8Array): string {
  return createHash('sha256').update(envelope).digest('base64')
}

function decodeMessage(message: Uint8Array): Uint8Array[] | undefined {
  if (message.length === 0 || message.length > GOSSIP_BYTES_MAX) return undefined
  try {
    return decodeBatch(message, { itemsMax: MESSAGE_LISTINGS_MAX, itemBytesMax: LISTING_BYTES_MAX })
  } catch {
    return undefined
  }
}
