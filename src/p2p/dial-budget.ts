import type { PeerInfo, Transport } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { BoundedMap } from '../lib/bounded-map.ts'
import { CodedError } from '../lib/errors.ts'
import { TokenBuckets, type TokenBucketsOptions } from '../lib/token-buckets.ts'
import { hostIn, placeIn, siteOf } from './networks.ts'
import { ADDRESSES_PER_PEER_MAX } from './reach/address-bound.ts'

const KEYS_MAX = 4096
/** Dials that lead nowhere: a burst and a rate in dials a second. */
const PER_PLACE: TokenBucketsOptions = { burst: 8, perSecond: 1 / 15, keysMax: KEYS_MAX }
const PER_SITE: TokenBucketsOptions = { burst: 64, perSecond: 1, keysMax: KEYS_MAX }
const PER_SOURCE: TokenBucketsOptions = { burst: 32, perSecond: 1 / 4, keysMax: KEYS_MAX }
const PER_SOURCE_SITE: TokenBucketsOptions = { burst: 128, perSecond: 1, keysMax: KEYS_MAX }
/** Peers that one answer may name. */
const NAMED_MAX = 64

/** Who named a place where a peer may be. */
type HintSource = { peerId: string; host: string }

/** The dial was not made, because the budget is used up. */
class DialRefused extends CodedError<'DIAL_BUDGET'> {
  constructor(address: Multiaddr) {
    super('DIAL_BUDGET', `${address} is not dialed now: too many dials there, or by the same hint, led nowhere`)
  }
}

/**
 * Limits how often this node dials on hearsay (D52). Without a limit, a peer that answers DHT questions could make this
 * node dial any host thousands of times. A dial that reaches its peer costs nothing. Dials that a local caller asked
 * for do not count.
 */
export class DialBudget {
  readonly #now: () => number
  readonly #places = new TokenBuckets(PER_PLACE)
  readonly #sites = new TokenBuckets(PER_SITE)
  readonly #sources = new TokenBuckets(PER_SOURCE)
  readonly #sourceSites = new TokenBuckets(PER_SOURCE_SITE)
  /** The last source that named each place. */
  readonly #hints = new BoundedMap<string, HintSource>(KEYS_MAX)
  readonly #exempt = new Set<string>()
  /** True if the peer was reached at this place before. */
  isReached: (peerId: string, place: string) => boolean = () => false

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Peers at places that the operator named are dialed without a limit. */
  exempt(addresses: readonly Multiaddr[]): void {
    for (const address of addresses) this.#exempt.add(placeIn(address))
  }

  /**
   * Returns the peers of an answer that this node considers. If the hints of the source led nowhere too often, it
   * returns none.
   */
  admit(source: HintSource, peers: readonly PeerInfo[]): PeerInfo[] {
    if (!this.#trusts(source)) return []
    const taken = peers.slice(0, NAMED_MAX).map(({ id, multiaddrs }) => ({
      id,
      multiaddrs: multiaddrs.slice(0, ADDRESSES_PER_PEER_MAX),
    }))
    for (const { multiaddrs } of taken) for (const address of multiaddrs) this.#hints.set(placeIn(address), source)
    return taken
  }

  /**
   * Counts a dial that is about to start. @returns a function to call when the dial reached its peer @throws
   * DialRefused
   */
  take(address: Multiaddr): () => void {
    const place = placeIn(address)
    const peerId = address.getComponents().findLast(({ name }) => name === 'p2p')?.value ?? ''
    if (this.#exempt.has(place) || this.isReached(peerId, place)) return () => {}
    const now = this.#now()
    const source = this.#hints.get(place)
    const spent: [TokenBuckets, string][] = [
      [this.#places, place],
      [this.#sites, siteOf(hostIn(address))],
      ...(source === undefined ? [] : this.#bucketsOf(source)),
    ]
    if (!spent.every(([buckets, key]) => buckets.has(key, 1, now))) throw new DialRefused(address)
    for (const [buckets, key] of spent) buckets.take(key, 1, now)
    return () => {
      for (const [buckets, key] of spent) buckets.give(key, 1, this.#now())
    }
  }

  #trusts(source: HintSource): boolean {
    return this.#bucketsOf(source).every(([buckets, key]) => buckets.has(key, 1, this.#now()))
  }

  #bucketsOf({ peerId, host }: HintSource): [TokenBuckets, string][] {
    return [
      [this.#sources, peerId],
      [this.#sourceSites, siteOf(host)],
    ]
  }
}

/** Counts the dials of a transport, except dials that a caller wants (`wanted: true` in the options). */
export function budgeted(transport: Transport, budget: DialBudget): Transport {
  const { dial } = transport
  transport.dial = async (address, options) => {
    const reached = (options as { wanted?: boolean }).wanted === true ? undefined : budget.take(address)
    const connection = await dial.call(transport, address, options)
    reached?.()
    return connection
  }
  return transport
}
