/* The host as the other parts use it. host-parts.ts builds its parts, and modules.ts the libp2p node within. */

import { setMaxListeners } from 'node:events'
import type { Connection, IdentifyResult, Stream } from '@libp2p/interface'
import type { Service } from '../lib/lifecycle.ts'
import { within } from '../lib/wait.ts'
import { DHT_PROTOCOL, PUBLIC_DHT_PROTOCOL } from './dht.ts'
import type { Receive } from './gossip.ts'
import { createParts, type HostDeps, type HostOptions, type Parts, runParts } from './host-parts.ts'
import { renewAddresses } from './libp2p-fixes/address-age.ts'
import { checkListening, checkUnshared } from './listening.ts'
import { type MarketSearch, marketSearchOf } from './market-search.ts'
import { transportOf } from './multiaddrs.ts'
import { hostIn, siteOf } from './networks.ts'
import { STREAMS_PER_PROTOCOL_MAX } from './new-stream.ts'
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
  /**
   * Addresses at which others can reach this node, each ending in `/p2p/<peerId>`: public, then private, then loopback
   * addresses.
   */
  addresses(): string[]
  reachability(): Reachability
  peers(): PeerView[]
  /** Whether this node has found the market, and how it searches. */
  search(): MarketSearch
  /** The addresses of a peer in the market's DHT. Empty if nobody there knows the peer. */
  findPeer(peerId: string, signal: AbortSignal): Promise<string[]>
  /** True if this host dialed a peer of the market at a place, and met it there. */
  hasReached(peerId: string, place: string): boolean
  /** Dials a visitor of the node's other host, if it takes part in the market (D52). */
  meet(visitor: IdentifyResult): void
  /**
   * Answers a protocol. The handler must attach its reader before it returns, because libp2p drops earlier bytes. An
   * exception resets the stream. Only a `relayed` protocol is answered and spoken over a relay too.
   */
  handle(protocol: string, handler: HandleStream, options?: { relayed: boolean }): Promise<void>
  /**
   * Opens a stream to a peer: over an existing connection, at the given addresses, or where the DHT finds the peer. The
   * peer at the other end is always the requested peer.
   *
   * @param options.instead a stream that the peer refused or ended: another process of the peer is asked, at a given address
   * @throws CodedError `PEER_UNREACHABLE` (also if the signal aborts first) or `PROTOCOL_UNSUPPORTED`
   */
  openStream(
    peer: { peerId: string; addrs: readonly string[] },
    protocol: string,
    signal: AbortSignal,
    options?: { instead?: Stream | undefined },
  ): Promise<Stream>
  /** True if a stream of `openStream` uses a relay although a direct connection exists now. */
  superseded(stream: Stream): boolean
  /**
   * Asks whether a peer answers, and returns the latency in ms. It costs neither side money. @throws CodedError
   * `PEER_UNREACHABLE`
   */
  probe(peer: { peerId: string; addrs: readonly string[] }, signal: AbortSignal): Promise<number>
  /**
   * Listens to a gossip topic. `receive` judges each message before it is passed on. A message is ignored if `receive`
   * takes longer than 10 s or throws. `fromPeerId` is the peer that passed the message on.
   */
  subscribe(topic: string, receive: Receive): void
  /** Gossips to all listeners. Returns the number of neighbors that got the message, which may be 0. */
  publish(topic: string, data: Uint8Array): Promise<number>
  /**
   * Reports a peer when its first direct connection opens, and again when one of several breaks. Returns a function
   * that stops the reports.
   */
  onPeerConnect(listener: (peerId: string) => void): () => void
  onAddressesChange(listener: () => void): () => void
  /**
   * The site that a connected peer connects from: an IPv4 address, or the /64 of an IPv6 address. Over a relay it is
   * the site of the relay.
   */
  siteOf(peerId: string): string | undefined
  /** True if a connected peer speaks a protocol. Undefined until the peer has said what it speaks. */
  speaks(peerId: string, protocol: string): boolean | undefined
}

type HandleStream = (stream: Stream, peerId: string) => void

const STOP_MAX_MS = 3000
/** Time for sent data to reach slow peers. Other peers need less. */
const LEAVE_MAX_MS = 500

/**
 * Builds the host. Nothing listens before `start`.
 *
 * @throws CodedError `BAD_MULTIADDR`, `BAD_LISTEN_HOST`; from `start`: `PORT_IN_USE`, `LISTEN_FAILED`
 */
export async function createHost(options: HostOptions, deps: HostDeps): Promise<Host> {
  return hostOf(await createParts(options, deps), deps)
}

function hostOf(parts: Parts, { identity: { peerId, did }, logger }: HostDeps): Host {
  const { libp2p, listenFailures: failures, addresses, gossip, book, connector, relays, mapping, announce } = parts
  const closing = new AbortController()
  setMaxListeners(0, closing.signal)
  let background: Promise<unknown> = Promise.resolve()
  let startedAt = 0
  const listening = () => libp2p.services.inside.transportManager.getAddrs()

  return {
    name: 'p2p',
    peerId,
    did,
    async start() {
      if (parts.reuse !== undefined) await checkUnshared(parts)
      await libp2p.start()
      try {
        checkListening({ port: parts.port, role: parts.role, listening: listening(), failures }, { logger })
        if (announce.length === 0) addresses.warnOfUnannounced(listening())
      } catch (error) {
        await libp2p.stop()
        throw error
      }
      gossip.start()
      addresses.check()
      startedAt = performance.now()
      background = runParts(parts, { logger }, closing.signal)
    },
    async stop() {
      if (libp2p.status !== 'started') return
      closing.abort(new Error('the host is stopping'))
      gossip.stop()
      await Promise.all(libp2p.getPeers().map((peer) => renewAddresses(libp2p, peer)))
      await takeLeave(libp2p.getConnections())
      if (!(await within(STOP_MAX_MS, Promise.resolve(libp2p.stop())))) {
        logger.warn({}, `peers did not disconnect within ${STOP_MAX_MS} ms; stopping anyway`)
      }
      await background
    },
    addresses: () => addresses.list(),
    reachability() {
      const tcp = listening().find((address) => transportOf(address) === 'tcp')
      return reachabilityOf({
        addresses: libp2p.getMultiaddrs(),
        announced: announce,
        relays: relays.list(),
        connectedTo: libp2p.getConnections().map(({ remoteAddr }) => remoteAddr),
        forwarding: mapping?.state(),
        relaysOffered: book.countSpeaking(HOP_PROTOCOL),
        port: tcp === undefined ? parts.port : Number(tcp.getComponents()[1]?.value),
        uptimeMs: performance.now() - startedAt,
      })
    },
    search: () =>
      marketSearchOf({
        met: book.countSpeaking(DHT_PROTOCOL),
        bootstrap: parts.kept.length + parts.named.length,
        mdns: parts.mdns,
        publicPeers: libp2p.services.publicDht && book.countSpeaking(PUBLIC_DHT_PROTOCOL),
        uptimeMs: performance.now() - startedAt,
      }),
    findPeer: (peer, signal) => connector.findPeer(peer, signal),
    hasReached: (peer, place) => parts.reached.has(peer, place),
    meet: (visitor) => meet(parts, visitor),
    peers: () => book.views(),
    speaks: (peer, protocol) => book.speaks(peer, protocol),
    siteOf(peer) {
      const connection = [...book.connections(peer), ...book.relayed(peer)][0]
      return connection && siteOf(hostIn(connection.remoteAddr))
    },
    async handle(protocol, handler, { relayed } = { relayed: false }) {
      if (relayed) parts.relayed.add(protocol)
      const onStream = (stream: Stream, { remotePeer }: Connection) => {
        try {
          handler(stream, remotePeer.toString())
        } catch (error) {
          logger.error({ operation: protocol, err: error }, 'a stream handler failed')
          stream.abort(new Error('the handler failed'))
        }
      }
      const limits = { maxInboundStreams: STREAMS_PER_PROTOCOL_MAX, maxOutboundStreams: STREAMS_PER_PROTOCOL_MAX }
      await libp2p.handle(protocol, onStream, { ...limits, runOnLimitedConnection: relayed })
    },
    openStream: (peer, protocol, signal, options) => connector.openStream(peer, protocol, signal, options),
    superseded: (stream) => connector.superseded(stream),
    probe: (peer, signal) => probe(peer, parts, signal),
    subscribe: (topic, receive) => gossip.subscribe(topic, receive),
    publish: (topic, data) => gossip.publish(topic, data),
    onPeerConnect: (listener) => reportPeers(parts, listener),
    onAddressesChange: (listener) => addresses.onChange(listener),
  }
}

function meet({ budget, discovery }: Parts, { peerId, protocols, listenAddrs, connection }: IdentifyResult): void {
  if (!protocols.includes(DHT_PROTOCOL) || connection.limits !== undefined) return
  const source = { peerId: peerId.toString(), host: hostIn(connection.remoteAddr) }
  for (const peer of budget.admit(source, [{ id: peerId, multiaddrs: listenAddrs }])) discovery.offer(peer)
}

function reportPeers({ libp2p, book }: Parts, listener: (peerId: string) => void): () => void {
  const onOpen = ({ detail: { limits, remotePeer } }: CustomEvent<Connection>) => {
    const peerId = remotePeer.toString()
    if (limits === undefined && book.connections(peerId).length === 1) listener(peerId)
  }
  // What ran over the closed connection must start again over another connection.
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

/**
 * Closes each connection only after the data sent over it has left. libp2p's own stop destroys inbound connections. The
 * last gossip would be lost, for example that this node's agents are off the market.
 */
async function takeLeave(connections: readonly Connection[]): Promise<void> {
  const signal = AbortSignal.timeout(LEAVE_MAX_MS)
  setMaxListeners(0, signal)
  await Promise.allSettled(connections.map((connection) => connection.close({ signal })))
}
