import { setMaxListeners } from 'node:events'
import type { Stream } from '@libp2p/interface'
import type { Datastore } from 'interface-datastore'
import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { keepConnected, type RetryTiming } from './bootstrap.ts'
import { Connector, type ConnectorTiming, STREAMS_PER_PROTOCOL_MAX } from './connector.ts'
import { Discovery, type DiscoveryTiming } from './discovery.ts'
import { Gossip, type Receive } from './gossip.ts'
import { type HeartbeatOptions, renewAddresses, runHeartbeat } from './heartbeat.ts'
import type { Identity } from './identity.ts'
import { checkListening, type ListenFailure } from './listening.ts'
import { createModules, type Node } from './modules.ts'
import { type PeerAddresses, parseAnnounce, parseBootstrap } from './multiaddrs.ts'
import { OwnAddresses } from './own-addresses.ts'
import { PeerBook, type PeerView } from './peer-book.ts'

export type { Verdict } from './gossip.ts'
export type { PeerView } from './peer-book.ts'

/** A node on the peer-to-peer network. */
export interface Host extends Service {
  readonly peerId: string
  readonly did: string
  /** Where others can reach this node, each ending in `/p2p/<peerId>`; public before private before loopback ones. */
  addresses(): string[]
  peers(): PeerView[]
  /**
   * Answers a protocol. The handler must attach its reader before it returns: libp2p drops what arrives earlier.
   * What it throws resets the stream.
   */
  handle(protocol: string, handler: (stream: Stream, peerId: string) => void): Promise<void>
  /**
   * Opens a stream to a peer: over the connection there is, else at the addresses given, else where the DHT finds it.
   * The peer at the other end is the one asked for.
   *
   * @throws CodedError `PEER_UNREACHABLE` (also when the signal comes first) or `PROTOCOL_UNSUPPORTED`
   */
  openStream(peer: { peerId: string; addrs: readonly string[] }, protocol: string, signal: AbortSignal): Promise<Stream>
  /**
   * Listens to a gossip topic. `receive` judges each message before it is passed on; one that takes longer than 10 s or
   * throws is ignored. `fromPeerId` is who handed it over.
   */
  subscribe(topic: string, receive: Receive): void
  /** Gossips to all who listen; with no peers it resolves. Returns to how many neighbours it went. */
  publish(topic: string, data: Uint8Array): Promise<number>
  /** Tells of peers as their first connection opens. Returns how to stop listening. */
  onPeerConnect(listener: (peerId: string) => void): () => void
  onAddressesChange(listener: () => void): () => void
  /** Whether a connected peer speaks a protocol; undefined until it has told. */
  speaks(peerId: string, protocol: string): boolean | undefined
}

export type HostOptions = {
  /** For TCP and QUIC alike; 0 lets each choose a free one. */
  port: number
  listenHosts: readonly string[]
  bootstrap: readonly string[]
  /** What the operator knows this node can be reached at. Trusted. */
  announce: readonly string[]
  mdns: boolean
  version: string
  timing?: Partial<HostTiming>
}

export type HostTiming = { retry: RetryTiming } & ConnectorTiming & DiscoveryTiming & HeartbeatOptions

export type HostDeps = { identity: Identity; datastore: Datastore; clock: Clock; logger: Logger }

const TIMING: HostTiming = {
  retry: { firstMs: 1000, mostMs: 60_000 },
  staggerMs: 250,
  attemptMs: 6000,
  stalledMs: 5000,
  dialGapMs: 100,
  rejoinEveryMs: 60_000,
  pingEveryMs: 30_000,
  pingTimeoutMs: 10_000,
  lookEveryMs: 1000,
}
const STOP_MAX_MS = 3000

/**
 * Builds the host. Nothing listens before `start`.
 *
 * @throws CodedError `BAD_MULTIADDR`, `BAD_LISTEN_HOST`; from `start`: `PORT_IN_USE`, `LISTEN_FAILED`
 */
export async function createHost(options: HostOptions, deps: HostDeps): Promise<Host> {
  const bootstrap = parseBootstrap(options.bootstrap, deps.identity.peerId)
  const announce = parseAnnounce(options.announce, deps.identity.peerId)
  const timing = { ...TIMING, ...options.timing }
  const gossip = new Gossip(deps)
  let discovery: Discovery | undefined
  const { libp2p, listenFailures } = await createModules(
    { ...options, announce },
    { ...deps, gossip, found: (peer) => discovery?.offer(peer) },
  )
  const book = new PeerBook(libp2p)
  const connector = new Connector(timing, { libp2p, book, clock: deps.clock })
  const connected = (peerId: string) => book.connected(peerId)
  discovery = new Discovery(timing, {
    libp2p,
    logger: deps.logger,
    connected,
    dial: ({ peerId, addresses }, signal) => connector.connect({ peerId, addrs: addresses }, signal),
  })
  const addresses = new OwnAddresses({ libp2p, logger: deps.logger })
  const parts = { libp2p, listenFailures, addresses, gossip, book, connector, discovery, bootstrap, timing }
  return new Libp2pHost({ port: options.port, announced: announce.length > 0 }, deps, parts)
}

type Parts = {
  libp2p: Node
  listenFailures: ListenFailure[]
  addresses: OwnAddresses
  gossip: Gossip
  book: PeerBook
  connector: Connector
  discovery: Discovery
  bootstrap: readonly PeerAddresses[]
  timing: HostTiming
}

class Libp2pHost implements Host {
  readonly name = 'p2p'
  readonly peerId: string
  readonly did: string
  readonly #options: { port: number; announced: boolean }
  readonly #logger: Logger
  readonly #parts: Parts
  readonly #closing = new AbortController()
  #background: Promise<unknown> = Promise.resolve()

  constructor(options: { port: number; announced: boolean }, { identity, logger }: HostDeps, parts: Parts) {
    this.peerId = identity.peerId
    this.did = identity.did
    this.#options = options
    this.#logger = logger
    this.#parts = parts
    setMaxListeners(0, this.#closing.signal)
  }

  async start(): Promise<void> {
    const { libp2p, listenFailures: failures, gossip, addresses } = this.#parts
    await libp2p.start()
    try {
      const listening = libp2p.services.inside.transportManager.getAddrs()
      checkListening({ port: this.#options.port, listening, failures }, { logger: this.#logger })
      if (!this.#options.announced) this.#parts.addresses.warnOfUnannounced(listening)
    } catch (error) {
      await libp2p.stop()
      throw error
    }
    gossip.start()
    addresses.check()
    this.#background = this.#runBackground(this.#closing.signal)
  }

  async stop(): Promise<void> {
    const { libp2p, gossip } = this.#parts
    if (libp2p.status !== 'started') return
    this.#closing.abort(new Error('the host is stopping'))
    gossip.stop()
    await Promise.all(libp2p.getPeers().map((peer) => renewAddresses(libp2p, peer)))
    await this.#withinLimit(Promise.resolve(libp2p.stop()))
    await this.#background
  }

  addresses(): string[] {
    return this.#parts.addresses.list()
  }

  peers(): PeerView[] {
    return this.#parts.book.views()
  }

  speaks(peerId: string, protocol: string): boolean | undefined {
    return this.#parts.book.speaks(peerId, protocol)
  }

  async handle(protocol: string, handler: (stream: Stream, peerId: string) => void): Promise<void> {
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
      { maxInboundStreams: STREAMS_PER_PROTOCOL_MAX, maxOutboundStreams: STREAMS_PER_PROTOCOL_MAX },
    )
  }

  async openStream(
    peer: { peerId: string; addrs: readonly string[] },
    protocol: string,
    signal: AbortSignal,
  ): Promise<Stream> {
    return await this.#parts.connector.openStream(peer, protocol, signal)
  }

  subscribe(topic: string, receive: Receive): void {
    this.#parts.gossip.subscribe(topic, receive)
  }

  async publish(topic: string, data: Uint8Array): Promise<number> {
    return await this.#parts.gossip.publish(topic, data)
  }

  onPeerConnect(listener: (peerId: string) => void): () => void {
    const { libp2p } = this.#parts
    const onConnect = (event: CustomEvent<{ toString(): string }>) => listener(event.detail.toString())
    libp2p.addEventListener('peer:connect', onConnect)
    return () => libp2p.removeEventListener('peer:connect', onConnect)
  }

  onAddressesChange(listener: () => void): () => void {
    return this.#parts.addresses.onChange(listener)
  }

  async #runBackground(signal: AbortSignal): Promise<void> {
    const { libp2p, addresses, book, discovery, bootstrap, timing } = this.#parts
    const logger = this.#logger
    const connected = (peerId: string) => book.connected(peerId)
    const heartbeatDeps = {
      libp2p,
      logger,
      noteLatency: book.noteLatency.bind(book),
      beat: () => addresses.check(),
    }
    const ended = await Promise.allSettled([
      ...bootstrap.map((peer) => keepConnected(peer, timing.retry, { libp2p, logger, connected }, signal)),
      discovery.run(signal),
      runHeartbeat(timing, heartbeatDeps, signal),
    ])
    for (const { reason } of ended.filter((one) => one.status === 'rejected')) {
      logger.error({ reason: reasonOf(reason) }, 'a part of the peer-to-peer host has ended early')
    }
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
