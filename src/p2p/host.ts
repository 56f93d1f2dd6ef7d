import { setMaxListeners } from 'node:events'
import type { Connection, Stream } from '@libp2p/interface'
import { reasonOf } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { STREAMS_PER_PROTOCOL_MAX } from './connector.ts'
import { DHT_PROTOCOL, PUBLIC_DHT_PROTOCOL } from './dht.ts'
import type { Receive } from './gossip.ts'
import { renewAddresses } from './heartbeat.ts'
import { createParts, type HostDeps, type HostOptions, type Parts, runParts } from './host-parts.ts'
import { checkListening, checkUnshared } from './listening.ts'
import { type MarketSearch, marketSearchOf } from './market-search.ts'
import { transportOf } from './multiaddrs.ts'
import { hostIn, siteOf } from './networks.ts'
import type { PeerView } from './peer-book.ts'
import { probe } from './probe.ts'
import { type Reachability, reachabilityOf } from './reach/reachability.ts'
import { HOP_PROTOCOL } from './reach/relays.ts'

export type { Verdict } from './gossip.ts'
export type { HostDeps, HostOptions } from './host-parts.ts'
export type { PeerView } from './peer-book.ts'
export type { Reachability } from './reach/reachability.ts'

/** A node on the peer-to-peer network. */
export interface Host extends Service {
  readonly peerId: string
  readonly did: string
  /** Where others can reach this node, each ending in `/p2p/<peerId>`; public before private before loopback ones. */
  addresses(): string[]
  /** Whether others can reach this node. */
  reachability(): Reachability
  peers(): PeerView[]
  /** Whether the market is found, and how it is looked for. */
  search(): MarketSearch
  /**
   * Answers a protocol. The handler must attach its reader before it returns: libp2p drops what arrives earlier.
   * What it throws resets the stream. Only a protocol that is `relayed` is answered, and spoken, over a relay as well.
   */
  handle(protocol: string, handler: HandleStream, options?: { relayed: boolean }): Promise<void>
  /**
   * Opens a stream to a peer: over the connection there is, else at the addresses given, else where the DHT finds it.
   * The peer at the other end is the one asked for.
   *
   * @throws CodedError `PEER_UNREACHABLE` (also when the signal comes first) or `PROTOCOL_UNSUPPORTED`
   */
  openStream(peer: { peerId: string; addrs: readonly string[] }, protocol: string, signal: AbortSignal): Promise<Stream>
  /** Whether a stream that `openStream` gave runs over a relay, while a direct connection stands by now. */
  superseded(stream: Stream): boolean
  /** Whether a peer answers, and after how many ms; costs neither side money. @throws CodedError `PEER_UNREACHABLE` */
  probe(peer: { peerId: string; addrs: readonly string[] }, signal: AbortSignal): Promise<number>
  /**
   * Listens to a gossip topic. `receive` judges each message before it is passed on; one that takes longer than 10 s or
   * throws is ignored. `fromPeerId` is who handed it over.
   */
  subscribe(topic: string, receive: Receive): void
  /** Gossips to all who listen; with no peers it resolves. Returns to how many neighbours it went. */
  publish(topic: string, data: Uint8Array): Promise<number>
  /**
   * Tells of peers as their first connection that needs no relay opens, and again when one of several breaks. Returns how
   * to stop listening.
   */
  onPeerConnect(listener: (peerId: string) => void): () => void
  onAddressesChange(listener: () => void): () => void
  /** Where a connected peer connects from: its IPv4 address, or the /64 of its IPv6 address. Over a relay: the relay's. */
  siteOf(peerId: string): string | undefined
  /** Whether a connected peer speaks a protocol; undefined until it has told. */
  speaks(peerId: string, protocol: string): boolean | undefined
}

type HandleStream = (stream: Stream, peerId: string) => void

const STOP_MAX_MS = 3000
/** For what has been sent to reach those who are slow; the rest are quicker. */
const LEAVE_MAX_MS = 500

/**
 * Builds the host. Nothing listens before `start`.
 *
 * @throws CodedError `BAD_MULTIADDR`, `BAD_LISTEN_HOST`; from `start`: `PORT_IN_USE`, `LISTEN_FAILED`
 */
export async function createHost(options: HostOptions, deps: HostDeps): Promise<Host> {
  return new Libp2pHost(deps, await createParts(options, deps))
}

class Libp2pHost implements Host {
  readonly name = 'p2p'
  readonly peerId: string
  readonly did: string
  readonly #logger: Logger
  readonly #parts: Parts
  readonly #closing = new AbortController()
  #background: Promise<unknown> = Promise.resolve()
  #startedAt = 0

  constructor({ identity, logger }: HostDeps, parts: Parts) {
    this.peerId = identity.peerId
    this.did = identity.did
    this.#logger = logger
    this.#parts = parts
    setMaxListeners(0, this.#closing.signal)
  }

  async start(): Promise<void> {
    const { libp2p, listenFailures: failures, gossip, addresses } = this.#parts
    if (this.#parts.reuse !== undefined) await checkUnshared(this.#parts.port)
    await libp2p.start()
    try {
      const listening = libp2p.services.inside.transportManager.getAddrs()
      checkListening({ port: this.#parts.port, listening, failures }, { logger: this.#logger })
      if (this.#parts.announce.length === 0) addresses.warnOfUnannounced(listening)
    } catch (error) {
      await libp2p.stop()
      throw error
    }
    gossip.start()
    addresses.check()
    this.#startedAt = performance.now()
    this.#background = runParts(this.#parts, { logger: this.#logger }, this.#closing.signal)
  }

  async stop(): Promise<void> {
    const { libp2p, gossip } = this.#parts
    if (libp2p.status !== 'started') return
    this.#closing.abort(new Error('the host is stopping'))
    gossip.stop()
    await Promise.all(libp2p.getPeers().map((peer) => renewAddresses(libp2p, peer)))
    await this.#takeLeave()
    await this.#withinLimit(Promise.resolve(libp2p.stop()))
    await this.#background
  }

  addresses(): string[] {
    return this.#parts.addresses.list()
  }

  reachability(): Reachability {
    const { libp2p, relays, book, announce, mapping } = this.#parts
    const tcp = libp2p.services.inside.transportManager.getAddrs().find((address) => transportOf(address) === 'tcp')
    return reachabilityOf({
      addresses: libp2p.getMultiaddrs(),
      announced: announce,
      relays: relays.list(),
      connectedTo: libp2p.getConnections().map(({ remoteAddr }) => remoteAddr),
      forwarding: mapping?.state(),
      relaysOffered: book.countSpeaking(HOP_PROTOCOL),
      port: tcp === undefined ? this.#parts.port : Number(tcp.getComponents()[1]?.value),
      uptimeMs: performance.now() - this.#startedAt,
    })
  }

  search(): MarketSearch {
    const { book, kept, named, mdns, libp2p } = this.#parts
    return marketSearchOf({
      met: book.countSpeaking(DHT_PROTOCOL),
      bootstrap: kept.length + named.length,
      mdns,
      publicPeers: libp2p.services.publicDht && book.countSpeaking(PUBLIC_DHT_PROTOCOL),
      uptimeMs: performance.now() - this.#startedAt,
    })
  }

  peers(): PeerView[] {
    return this.#parts.book.views()
  }

  speaks(peerId: string, protocol: string): boolean | undefined {
    return this.#parts.book.speaks(peerId, protocol)
  }

  siteOf(peerId: string): string | undefined {
    const { book } = this.#parts
    const connection = [...book.connections(peerId), ...book.relayed(peerId)][0]
    return connection === undefined ? undefined : siteOf(hostIn(connection.remoteAddr))
  }

  async handle(protocol: string, handler: HandleStream, { relayed } = { relayed: false }): Promise<void> {
    if (relayed) this.#parts.relayed.add(protocol)
    await this.#parts.libp2p.handle(
      protocol,
      (stream, { remotePeer }) => {
        try {
          handler(stream, remotePeer.toString())
        } catch (error) {
          this.#logger.error({ protocol, reason: reasonOf(error) }, 'a stream handler failed')
          stream.abort(new Error('the handler failed'))
        }
      },
      {
        maxInboundStreams: STREAMS_PER_PROTOCOL_MAX,
        maxOutboundStreams: STREAMS_PER_PROTOCOL_MAX,
        runOnLimitedConnection: relayed,
      },
    )
  }

  async openStream(
    peer: { peerId: string; addrs: readonly string[] },
    protocol: string,
    signal: AbortSignal,
  ): Promise<Stream> {
    return await this.#parts.connector.openStream(peer, protocol, signal)
  }

  superseded(stream: Stream): boolean {
    return this.#parts.connector.superseded(stream)
  }

  async probe(peer: { peerId: string; addrs: readonly string[] }, signal: AbortSignal): Promise<number> {
    return await probe(peer, this.#parts, signal)
  }

  subscribe(topic: string, receive: Receive): void {
    this.#parts.gossip.subscribe(topic, receive)
  }

  async publish(topic: string, data: Uint8Array): Promise<number> {
    return await this.#parts.gossip.publish(topic, data)
  }

  onPeerConnect(listener: (peerId: string) => void): () => void {
    const { libp2p, book } = this.#parts
    const onOpen = ({ detail: { limits, remotePeer } }: CustomEvent<Connection>) => {
      const peerId = remotePeer.toString()
      if (limits === undefined && book.connections(peerId).length === 1) listener(peerId)
    }
    // What ran over the connection has to be begun anew over the one that is left.
    const onClose = ({ detail: { limits, remotePeer } }: CustomEvent<Connection>) => {
      const peerId = remotePeer.toString()
      if (limits === undefined && book.connections(peerId).length > 0) listener(peerId)
    }
    libp2p.addEventListener('connection:open', onOpen)
    libp2p.addEventListener('connection:close', onClose)
    return () => {
      libp2p.removeEventListener('connection:open', onOpen)
      libp2p.removeEventListener('connection:close', onClose)
    }
  }

  onAddressesChange(listener: () => void): () => void {
    return this.#parts.addresses.onChange(listener)
  }

  /**
   * Closes each connection with what was sent over it: libp2p's own stop destroys those that others have dialled, and with
   * them the last that was gossiped, such as that this node's agents are off the market.
   */
  async #takeLeave(): Promise<void> {
    const signal = AbortSignal.timeout(LEAVE_MAX_MS)
    const connections = this.#parts.libp2p.getConnections()
    setMaxListeners(0, signal)
    await Promise.allSettled(connections.map((connection) => connection.close({ signal })))
  }

  async #withinLimit(stopping: Promise<void>): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<'late'>()
    const limit = setTimeout(() => resolve('late'), STOP_MAX_MS)
    try {
      const outcome = await Promise.race([stopping, late])
      if (outcome === 'late')
        this.#logger.warn({}, `peers did not let go within ${STOP_MAX_MS} ms; stopping all the same`)
    } finally {
      clearTimeout(limit)
    }
  }
}
