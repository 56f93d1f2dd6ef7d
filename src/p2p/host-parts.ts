/* Builds the parts of a host and runs them. modules.ts builds the libp2p node, host.ts is what others use. */

import type { IdentifyResult } from '@libp2p/interface'
import type { Datastore } from 'interface-datastore'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Pace } from '../lib/pace.ts'
import { keepConnected } from './bootstrap.ts'
import { Connector, type ConnectorTiming } from './connector.ts'
import { DHT_PROTOCOL, PUBLIC_BOOTSTRAP, PUBLIC_DHT_PROTOCOL } from './dht.ts'
import { DialBudget } from './dial-budget.ts'
import { Discovery, type DiscoveryTiming } from './discovery.ts'
import { Gossip } from './gossip.ts'
import { type HeartbeatOptions, runHeartbeat } from './heartbeat.ts'
import type { Identity } from './identity.ts'
import { ListedAddresses } from './listed-addresses.ts'
import { createModules, type ModulesOptions } from './modules.ts'
import { namesIn, type PeerAddresses, parseAnnounce, parseBootstrap, parseRelays } from './multiaddrs.ts'
import { NamedPeers, type NamedPeersTiming, systemDns } from './named-peers.ts'
import { hostIn, isPrivateHost } from './networks.ts'
import { PeerBook } from './peer-book.ts'
import { PING_PROTOCOL } from './ping.ts'
import { AddressProof, type ProofTiming } from './reach/address-proof.ts'
import { DialBack } from './reach/dial-back.ts'
import { HolePunch } from './reach/hole-punch.ts'
import { OwnAddresses } from './reach/own-addresses.ts'
import { publicAddresses } from './reach/reachability.ts'
import { Relays, type RelayTiming } from './reach/relays.ts'
import { Visitors } from './reach/visitors.ts'
import { ReachedPeers } from './reached-peers.ts'
import { meetInDht, type RendezvousTiming } from './rendezvous.ts'
import type { PortMapping, PortMappingTiming } from './upnp/port-mapping.ts'

export type HostOptions = Omit<ModulesOptions, 'announce' | 'publicDht'> & {
  bootstrap: readonly string[]
  /** Addresses at which the operator says this node can be reached. They are trusted. */
  announce: readonly string[]
  /** Relays that this node may be reached through, in addition to those it finds. */
  relays?: readonly string[]
  /** True to ask the router to forward the port. */
  upnp?: boolean
  /**
   * True to search, and be found in, the public DHT too. The object form joins another such DHT by its own bootstrap
   * peers.
   */
  publicDht?: boolean | { bootstrap: readonly string[]; privateAddresses: boolean }
  /**
   * True if private addresses and names from others are dialed when this node needs the peer. By default this is true
   * only if the operator named a bootstrap peer or relay with such an address.
   */
  dialPrivate?: boolean | undefined
  /** Connections that one address may have to this node. */
  connectionsPerAddress?: number
  timing?: Partial<HostTiming>
}

type HostTiming = NamedPeersTiming &
  ConnectorTiming &
  DiscoveryTiming &
  RelayTiming &
  ProofTiming &
  PortMappingTiming &
  RendezvousTiming &
  HeartbeatOptions

/** The market host of a node, as its trade host uses it. */
type MarketDirectory = {
  /** The addresses of a peer in the DHT. */
  findPeer(peerId: string, signal: AbortSignal): Promise<string[]>
  /** True if this node dialed and met the peer there (D52). */
  hasReached(peerId: string, place: string): boolean
  /** Takes a peer of the market that has connected to the trade host. */
  meet(visitor: IdentifyResult): void
}

export type HostDeps = {
  identity: Identity
  datastore: Datastore
  clock: Clock
  logger: Logger
  /** Limits how much of the event loop the work for neighbors takes. */
  pace?: Pace
  /** Of a trade host: where it finds peers, since it is in no DHT. */
  directory?: MarketDirectory
  /** The peer id of the node's other host. */
  otherPeerId?: string
}

const TIMING: HostTiming = {
  retry: { firstMs: 1000, mostMs: 60_000 },
  askNamesEveryMs: 15 * 60_000,
  staggerMs: 250,
  attemptMs: 6000,
  stalledMs: 5000,
  openMs: 30_000,
  dialGapMs: 100,
  rejoinEveryMs: 60_000,
  pingEveryMs: 30_000,
  pingTimeoutMs: 10_000,
  lookEveryMs: 1000,
  beatEveryMs: 2000,
  meetEveryMs: 60_000,
  proofLookMs: 1000,
  proofEveryMs: 5 * 60_000,
  proofRetryMs: 5_000,
  mapLookMs: 2000,
  mapEveryMs: 5 * 60_000,
  mapRetryMs: 60_000,
  mapRouterMs: 20_000,
  relayLookMs: 1000,
  relayAfterMs: 5000,
  relayRetry: { firstMs: 15_000, mostMs: 30 * 60 * 1000 },
}

/** With this many market peers connected, this node does not search the meeting points. */
const PEERS_MET = 8

/** The parts of the host, and the options that it got. */
export type Parts = Awaited<ReturnType<typeof createParts>>

/** @throws CodedError `BAD_MULTIADDR`, `BAD_LISTEN_HOST` */
export async function createParts(options: HostOptions, deps: HostDeps) {
  const { identity, logger, clock, directory } = deps
  const { role } = options
  const isSelf = (peerId: string) => peerId === identity.peerId || peerId === deps.otherPeerId
  const configured = parseRelays(options.relays ?? [], identity.peerId)
  const announce = parseAnnounce(options.announce, identity.peerId)
  const texts = [...options.bootstrap, ...(options.relays ?? [])]
  const trusted = parseBootstrap(texts, identity.peerId).filter(({ peerId }) => !isSelf(peerId))
  // A trade host needs other nodes only to find out how it is reached.
  const isReachable = role === 'trade' && publicAddresses(announce).length > 0
  /** Peers to stay connected with: bootstrap peers and relays that the operator named. */
  const kept = isReachable ? [] : trusted
  const publicDht =
    options.publicDht === true
      ? { bootstrap: PUBLIC_BOOTSTRAP, privateAddresses: false }
      : options.publicDht || undefined
  const publicPeers = role === 'trade' ? [] : parseBootstrap(publicDht?.bootstrap ?? [], identity.peerId)
  /** Names that lead to more such peers. */
  const named = isReachable ? [] : namesIn(texts).map((name) => new NamedPeers(name))
  const namedRelays = namesIn(options.relays ?? [])
  const timing = { ...TIMING, ...options.timing }
  const gossip = new Gossip(deps)
  const budget = new DialBudget()
  const { connectionsPerAddress } = options
  const perAddress = connectionsPerAddress === undefined ? {} : { perAddress: connectionsPerAddress }
  const isTrusted = (peerId: string) => trusted.some((peer) => peer.peerId === peerId)
  const isNamed = (peerId: string) => named.some((one) => one.has(peerId))
  const isNeeded = (peerId: string) => isTrusted(peerId) || isNamed(peerId)
  let discovery: Discovery | undefined
  const { libp2p, listenFailures, reservations, tcp, reuse } = await createModules(
    { ...options, announce, publicDht, inbound: { ...perAddress, ...options.inbound } },
    { ...deps, gossip, budget, isNeeded, isSelf, found: (peer) => discovery?.offer(peer) },
  )
  budget.exempt(trusted.flatMap(({ addresses }) => addresses))
  const reached = new ReachedPeers({ ...deps, libp2p })
  const isReached = (peerId: string, place: string) =>
    reached.has(peerId, place) || directory?.hasReached(peerId, place) === true
  budget.isReached = isReached
  const book = new PeerBook(libp2p)
  /** Protocols that may be spoken over a relay. */
  const relayed = new Set<string>([PING_PROTOCOL])
  const mayBeRelayed = (protocol: string) => relayed.has(protocol)
  const isPrivateMarket = trusted.some(({ addresses }) => addresses.some((address) => isPrivateHost(hostIn(address))))
  const listed = new ListedAddresses({
    mayDialPrivate: options.dialPrivate ?? isPrivateMarket,
    listenHosts: options.listenHosts,
    isReached,
  })
  const connector = new Connector(timing, {
    ...{ libp2p, book, clock, mayBeRelayed, listed, isSelf },
    findPeer: directory?.findPeer,
  })
  const connected = (peerId: string) => book.connected(peerId)
  discovery = new Discovery(timing, {
    libp2p,
    logger,
    connected,
    reached: () => reached.list(),
    dial: ({ peerId, addresses }, signal) => connector.connect({ peerId, addrs: addresses }, signal),
  })
  // An operator may name the trade host of a seller as a bootstrap peer: its market host comes to those who do.
  libp2p.addEventListener('peer:identify', ({ detail }) => directory?.meet(detail))
  const addresses = new OwnAddresses({ libp2p, logger })
  const dialBack = new DialBack()
  const visitors = new Visitors({ libp2p, isTrusted: isNeeded })
  // Proofs can be faked, visitors cannot. A proved address counts as public only while strangers connect to it.
  const isPublic = () =>
    (options.relay === true && role !== 'trade') ||
    publicAddresses(announce).length > 0 ||
    (publicAddresses(libp2p.getMultiaddrs()).length > 0 && visitors.come())
  const changed = () => addresses.check()
  const isConfigured = (peerId: string) =>
    configured.some((relay) => relay.peerId === peerId) ||
    named.some((one) => namedRelays.includes(one.name) && one.has(peerId))
  const relays = new Relays(timing, { libp2p, logger, book, reservations, isConfigured, isPublic, changed })
  const punch = new HolePunch({ libp2p, logger, book, connector, tcp, reuse })
  let mapping: PortMapping | undefined
  const routerIsAsked = () => mapping?.state().state === 'asking'
  const proof = new AddressProof({ libp2p, logger, book, clock, dialBack, isTrusted, routerIsAsked })
  if (options.upnp === true && role !== 'market') {
    const { PortMapping } = await import('./upnp/port-mapping.ts')
    const listening = () => libp2p.services.inside.transportManager.getAddrs()
    mapping = new PortMapping(timing, { logger, listening, mapped: proof.mapped.bind(proof) })
  }
  const { port, mdns, dns = systemDns } = options
  const settings = { role, port, mdns, dns, timing, announce, kept, named, publicPeers, reuse, relayed }
  const reach = { addresses, relays, proof, dialBack, mapping, punch }
  return { libp2p, listenFailures, gossip, budget, book, connector, discovery, reached, ...reach, ...settings }
}

/** Runs everything that works in the background of the host, until the signal aborts. */
export async function runParts(parts: Parts, { logger }: { logger: Logger }, signal: AbortSignal): Promise<void> {
  const { role, libp2p, addresses, book, discovery, relays, proof, dialBack, mapping, punch, timing } = parts
  const { dht, publicDht } = libp2p.services
  const connected = (peerId: string) => book.connected(peerId)
  const meeting = {
    logger,
    enough: () => book.countSpeaking(DHT_PROTOCOL) >= PEERS_MET,
    found: discovery.offer.bind(discovery),
  }
  const heartbeat = {
    libp2p,
    logger,
    noteLatency: book.noteLatency.bind(book),
    beat: () => addresses.check(),
    movedAt: () => addresses.movedAt,
  }
  const keep = (peer: PeerAddresses, until: AbortSignal) =>
    keepConnected(peer, timing.retry, { libp2p, logger, connected }, until)
  const naming = { dns: parts.dns, logger, ownPeerId: libp2p.peerId.toString(), keep }
  const ended = await Promise.allSettled([
    ...parts.kept.map((peer) => keep(peer, signal)),
    ...parts.named.map((name) => name.run(timing, naming, signal)),
    ...parts.publicPeers.map((peer) =>
      keepConnected(peer, timing.retry, { libp2p, logger, connected, quiet: true }, signal),
    ),
    role !== 'trade' && discovery.run(signal),
    dht && meetInDht(timing, { ...meeting, directory: dht, ready: () => book.countSpeaking(DHT_PROTOCOL) > 0 }, signal),
    publicDht &&
      meetInDht(
        timing,
        { ...meeting, directory: publicDht, ready: () => book.countSpeaking(PUBLIC_DHT_PROTOCOL) > 0 },
        signal,
      ),
    // Nothing of the market runs over a relay, so a market host needs none.
    role !== 'market' && relays.run(signal),
    dialBack.start(libp2p).then(() => proof.run(timing, signal)),
    mapping?.run(signal),
    punch.run(signal),
    runHeartbeat(timing, heartbeat, signal),
  ])
  for (const { reason } of ended.filter((one) => one.status === 'rejected')) {
    logger.error({ err: reason }, 'a part of the peer-to-peer host has ended early')
  }
}
