import type { Connection, Stream } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import type { Multiaddr } from '@multiformats/multiaddr'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { orAborted } from '../lib/wait.ts'
import { DHT_PROTOCOL } from './dht.ts'
import { type DialTiming, dialFirst, SharedDials } from './dial.ts'
import type { ListedAddresses } from './listed-addresses.ts'
import type { Node } from './modules.ts'
import { addressesOf, isRelayed, startAnywhere } from './multiaddrs.ts'
import { placeIn } from './networks.ts'
import { isClosing, newStream, StreamRefused } from './new-stream.ts'
import { connectionTo, type PeerBook } from './peer-book.ts'

/**
 * With this many connections to a peer, this node waits instead of dialing again. A peer that is slow on all of them is
 * not gone. One more connection would only add work for it.
 */
const CONNECTIONS_TRIED_MAX = 3
const ADDRESSES_DIALED_MAX = 16
const ONLY_PRIVATE =
  'its listing names only addresses of private networks, where this node has not met it: if that is your own network, set NODE_DIAL_PRIVATE=true (p2p.dial_private), or name the peer with --bootstrap'
/**
 * Addresses tried when this node only asks whether a peer answers. A listing must not make this node dial many hosts
 * (D52).
 */
const ADDRESSES_ASKED_MAX = 2
/** Peers whose answered dials are kept in memory, and how many of each. Beyond it the oldest are forgotten. */
const ANSWERED_PEERS_MAX = 1000
const ANSWERED_MAX = 4
const LOOKUP_TIMEOUT_MS = 10_000

export type Destination = { peerId: string; addrs: readonly (string | Multiaddr)[] }

/**
 * How to dial. `relayed`: relays are allowed. `wanted`: a caller needs the peer now, so the dial does not count as a
 * dial on hearsay. `listed`: the addresses come from a listing. `most`: addresses tried. `avoid`: the process at the other
 * end of this connection cannot help.
 */
type How = { relayed: boolean; wanted: boolean; listed: boolean; most: number; avoid?: Connection | undefined }
type OpenOptions = {
  /** True if the caller only asks whether the peer answers. Few addresses are tried, and the dials count as hearsay. */
  asking?: boolean
  /**
   * The peer refused or ended this stream. Several processes may be one peer: another of them is asked, at a given address.
   */
  instead?: Stream | undefined
}

export type ConnectorTiming = DialTiming & {
  /** If an existing connection opens no stream within this time, it counts as dead and the peer is dialed again. */
  stalledMs: number
  /** The longest time for opening a stream. A peer may accept a connection and never agree on a protocol (T7). */
  openMs: number
}

type ConnectorDeps = {
  libp2p: Node
  book: PeerBook
  clock: Clock
  /** True if a protocol may use a relay. The traffic of a relay is limited, and others pay for it. */
  mayBeRelayed(protocol: string): boolean
  listed: Pick<ListedAddresses, 'mayDial'>
  /** True for each identity of this node. */
  isSelf(peerId: string): boolean
  /** From 0 to less than 1. */
  random?: () => number
  /** Where another host of this node finds a peer. Without it, the DHT of this host is asked. */
  findPeer?: ((peerId: string, signal: AbortSignal) => Promise<string[]>) | undefined
}

/** Reaches peers over an existing connection, at given or remembered addresses, or at addresses from the DHT. */
export class Connector {
  readonly #timing: ConnectorTiming
  readonly #deps: ConnectorDeps
  readonly #dials = new SharedDials()
  /** The connection of each stream. */
  readonly #connections = new WeakMap<Stream, Connection>()
  /**
   * Where a peer answered, the last place first. The peer store forgets it when the peer names its addresses. Several
   * processes may be one peer, and each names only its own.
   */
  readonly #answered = new BoundedMap<string, readonly Multiaddr[]>(ANSWERED_PEERS_MAX)

  constructor(timing: ConnectorTiming, deps: ConnectorDeps) {
    this.#timing = timing
    this.#deps = deps
  }

  /**
   * Opens a stream on which both sides have agreed to speak `protocol`. If the peer ends the stream at once, or does not speak
   * the protocol, another process of this peer is asked, at a given address.
   *
   * @throws CodedError `PEER_UNREACHABLE` or `PROTOCOL_UNSUPPORTED`
   */
  async openStream(
    peer: Destination,
    protocol: string,
    outer: AbortSignal,
    { asking = false, instead }: OpenOptions = {},
  ): Promise<Stream> {
    const { peerId } = peer
    const signal = AbortSignal.any([outer, AbortSignal.timeout(this.#timing.openMs)])
    try {
      signal.throwIfAborted()
      if (!isPeerId(peerId)) throw unreachable(peerId, 'that is not a peer id')
      const relayed = this.#deps.mayBeRelayed(protocol)
      const most = asking ? ADDRESSES_ASKED_MAX : ADDRESSES_DIALED_MAX
      const avoid = instead && this.#connections.get(instead)
      const how = { relayed, wanted: !asking, listed: true, most, avoid }
      try {
        return await this.#open(peer, protocol, how, signal)
      } catch (error) {
        const hasOthers = !asking && avoid === undefined && peer.addrs.length > 1
        if (!(error instanceof StreamRefused) || !hasOthers || signal.aborted) throw error
        return await this.#open(peer, protocol, { ...how, avoid: error.connection }, signal).catch(() => {
          throw error
        })
      }
    } catch (error) {
      if (error instanceof CodedError) throw error
      if (error instanceof StreamRefused && error.isUnspoken) {
        throw new CodedError('PROTOCOL_UNSUPPORTED', `peer ${peerId} does not speak ${protocol}`, { cause: error })
      }
      const reason = signal.aborted ? `no answer in time (${reasonOf(signal.reason)})` : reasonOf(error)
      throw unreachable(peerId, reason, error)
    }
  }

  async #open(peer: Destination, protocol: string, how: How, signal: AbortSignal): Promise<Stream> {
    const { relayed, avoid } = how
    const { book } = this.#deps
    const direct = book.connections(peer.peerId)
    const others = avoid && new Set(book.addressesAt(avoid).map(placeIn))
    const existing =
      connectionTo(peer, direct, others) ?? (relayed && !avoid ? book.relayed(peer.peerId).at(-1) : undefined)
    const patient = direct.length >= CONNECTIONS_TRIED_MAX
    const stream = existing && (await this.#tryExisting(existing, protocol, { signal, patient }))
    if (existing !== undefined && stream !== undefined) return this.#noted(stream, existing)
    const connection = await this.#connect(peer, how, signal)
    return this.#noted(await newStream(connection, protocol, signal), connection)
  }

  /** True if a stream uses a relay although a direct connection exists now. */
  superseded(stream: Stream): boolean {
    const connection = this.#connections.get(stream)
    return connection?.limits !== undefined && this.#deps.book.connected(connection.remotePeer.toString())
  }

  #noted(stream: Stream, connection: Connection): Stream {
    this.#connections.set(stream, connection)
    return stream
  }

  /**
   * Opens a new connection to a peer, without a relay. Simultaneous calls for the same peer share one connection.
   *
   * @throws CodedError `PEER_UNREACHABLE`
   */
  async connect(peer: Destination, signal: AbortSignal): Promise<Connection> {
    const how = { relayed: false, wanted: false, listed: false, most: ADDRESSES_DIALED_MAX }
    return await this.#connect(peer, how, signal)
  }

  async #connect({ peerId, addrs }: Destination, how: How, signal: AbortSignal): Promise<Connection> {
    if (this.#deps.isSelf(peerId)) throw unreachable(peerId, 'it is this node itself')
    const { random } = this.#deps
    const given = how.listed && how.wanted ? startAnywhere(addressesOf(peerId, addrs), random) : addrs
    const all = addressesOf(peerId, [...given, ...(await this.#remembered(peerId))])
    const avoided = how.avoid && new Set(this.#deps.book.addressesAt(how.avoid).map(placeIn))
    const mayDial = (address: Multiaddr) =>
      avoided?.has(placeIn(address)) !== true && (!how.listed || this.#deps.listed.mayDial(peerId, address))
    const usable = (addresses: Multiaddr[]) =>
      addresses.filter((address) => (how.relayed || !isRelayed(address)) && mayDial(address))
    const known = usable(all).slice(0, how.most)
    try {
      return await this.#dial(peerId, known, how, signal)
    } catch (error) {
      if (signal.aborted || avoided !== undefined) throw error
      // Another call, or the peer itself, may have made a connection in the meantime.
      const met = this.#deps.book.connections(peerId).at(-1)
      if (met !== undefined) return met
      const tried = new Set(known.map(String))
      const looked = addressesOf(peerId, await (this.#deps.findPeer ?? this.findPeer.bind(this))(peerId, signal))
      const found = usable(looked).filter((address) => !tried.has(address.toString()))
      if (found.length === 0) {
        const isOnlyPrivate = known.length === 0 && [...all, ...looked].some((address) => !mayDial(address))
        throw unreachable(peerId, isOnlyPrivate ? ONLY_PRIVATE : reasonOf(error), error)
      }
      return await this.#dial(peerId, found.slice(0, how.most), how, signal)
    }
  }

  /**
   * Opens a stream on an existing connection. Undefined if the connection turns out to be dead. After a refusal on a live
   * connection the same process is not dialed.
   *
   * @param patient wait as long as opening a stream may take, or until the connection closes
   */
  async #tryExisting(
    connection: Connection,
    protocol: string,
    { signal, patient }: { signal: AbortSignal; patient: boolean },
  ): Promise<Stream | undefined> {
    const stalled = patient ? undefined : AbortSignal.timeout(this.#timing.stalledMs)
    try {
      return await newStream(connection, protocol, stalled === undefined ? signal : AbortSignal.any([signal, stalled]))
    } catch (error) {
      const isOpen = !isClosing(connection, error)
      if (signal.aborted || (isOpen && stalled?.aborted !== true)) throw error
      return undefined
    }
  }

  async #dial(
    peerId: string,
    addresses: readonly Multiaddr[],
    { relayed, wanted, listed, most, avoid }: How,
    signal: AbortSignal,
  ): Promise<Connection> {
    const { transportManager } = this.#deps.libp2p.services.inside
    const dialOne = (address: Multiaddr, attempt: AbortSignal) =>
      transportManager.dial(address, { signal: attempt, wanted })
    const dialAll = (shared: AbortSignal) => dialFirst(addresses, dialOne, this.#timing, shared)
    const connection = await this.#dials.dial(
      `${peerId} ${relayed} ${wanted} ${listed} ${most} ${avoid?.remoteAddr}`,
      dialAll,
      signal,
    )
    // Both transports compare the key with the dialed address. Check it again here, because payments depend on this
    // peer id.
    if (connection.remotePeer.toString() !== peerId) {
      connection.abort(new Error('another peer answered'))
      throw unreachable(peerId, `${connection.remotePeer} answered at ${connection.remoteAddr}`)
    }
    this.#noteAnswer(peerId, connection.remoteAddr)
    void this.#remember(connection)
    return connection
  }

  /** Where the DHT says that a peer is. */
  async findPeer(peerId: string, signal: AbortSignal): Promise<string[]> {
    // Without a peer to ask, libp2p would wait until one connects.
    if (this.#deps.book.countSpeaking(DHT_PROTOCOL) === 0) return []
    const limit = AbortSignal.any([signal, AbortSignal.timeout(LOOKUP_TIMEOUT_MS)])
    try {
      const { peerRouting } = this.#deps.libp2p
      const lookup = peerRouting.findPeer(peerIdFromString(peerId), { signal: limit, useCache: false })
      return (await orAborted(lookup, limit)).multiaddrs.map(String)
    } catch {
      return []
    }
  }

  async #remembered(peerId: string): Promise<Multiaddr[]> {
    const answered = this.#answered.get(peerId) ?? []
    try {
      const { addresses } = await this.#deps.libp2p.peerStore.get(peerIdFromString(peerId))
      return [...addresses.map(({ multiaddr }) => multiaddr), ...answered]
    } catch {
      return [...answered]
    }
  }

  #noteAnswer(peerId: string, place: Multiaddr): void {
    const others = this.#answered.get(peerId)?.filter((one) => !one.equals(place)) ?? []
    this.#answered.set(peerId, [place, ...others].slice(0, ANSWERED_MAX))
  }

  /** Stores the address as libp2p's own dialer does, so that the peer is found again after a restart. */
  async #remember({ remotePeer, remoteAddr }: Connection): Promise<void> {
    const reachedAt = new TextEncoder().encode(String(this.#deps.clock.now()))
    const news = { multiaddrs: [remoteAddr], metadata: { 'last-dial-success': reachedAt } }
    await this.#deps.libp2p.peerStore.merge(remotePeer, news).catch(() => {})
  }
}

function isPeerId(text: string): boolean {
  try {
    return peerIdFromString(text).toString() === text
  } catch {
    return false
  }
}

function unreachable(peerId: string, reason: string, cause?: unknown): CodedError<'PEER_UNREACHABLE'> {
  return new CodedError('PEER_UNREACHABLE', `peer ${peerId} cannot be reached: ${reason}`, { cause })
}
