/* Builds the libp2p node with its transports, limits and services. host-parts.ts builds what uses it. */

import { isIP } from 'node:net'
import { autoNATv2 } from '@libp2p/autonat-v2'
import { type Identify, type IdentifyPush, identify, identifyPush } from '@libp2p/identify'
import { type ConnectionGater, FaultTolerance, type PeerInfo, type Transport } from '@libp2p/interface'
import type { KadDHT, KadDHTComponents } from '@libp2p/kad-dht'
import { noise } from '@libp2p/noise'
import { peerIdFromString } from '@libp2p/peer-id'
import { type Ping, ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import type { Multiaddr } from '@multiformats/multiaddr'
import type { Datastore } from 'interface-datastore'
import { createLibp2p, type Libp2p, type Libp2pInit } from 'libp2p'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { openFilesMax } from '../lib/open-files.ts'
import { BoundedDatastore } from './bounded-datastore.ts'
import { createDht, createPublicDht, type Directory } from './dht.ts'
import { DIAL_MS_MAX } from './dial.ts'
import { budgeted, DialBudget } from './dial-budget.ts'
import type { Gossip } from './gossip.ts'
import type { Identity } from './identity.ts'
import { CONNECTIONS_MAX, connectionsFor, type InboundLimits, InboundPlaces } from './inbound-places.ts'
import { answeringOnly } from './libp2p-fixes/answering-autonat.ts'
import { batchingWrites } from './libp2p-fixes/batched-writes.ts'
import { takeBackAfterEnd } from './libp2p-fixes/half-closed.ts'
import type { Inside } from './libp2p-fixes/inside.ts'
import { skipKnownProtocols } from './libp2p-fixes/known-protocols.ts'
import { type ListenFailure, noteFailures } from './libp2p-fixes/listen-failures.ts'
import { dialFromPort, tryPortReuse } from './libp2p-fixes/port-reuse.ts'
import { tellResets } from './libp2p-fixes/quic-resets.ts'
import { createRelayTransport } from './libp2p-fixes/relay-transport.ts'
import { readingOn } from './libp2p-fixes/short-reads.ts'
import { keepInterfacesSteady } from './libp2p-fixes/steady-interfaces.ts'
import { announceable, isDialable } from './multiaddrs.ts'
import type { Dns } from './named-peers.ts'
import { boundAddresses } from './reach/address-bound.ts'
import { createRelayServer, type RelayServer } from './reach/relay-server.ts'

/** Connections of one peer. A peer needs one or two; a peer with more could use up everybody's. */
const CONNECTIONS_PER_PEER_MAX = 8
/** Peers remembered. Beyond it the peer used longest ago is forgotten. */
const PEERS_KEPT_MAX = 2000
const PEER_BYTES_MAX = 64 * 1024
/** Part of the datastore for peers that this node reached. libp2p does not use it. */
export const REACHED_PREFIX = '/stoa-reached'
const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS

type Services = {
  identify: Identify
  identifyPush: IdentifyPush
  ping: Ping
  inside: Inside
  dht?: KadDHT
  pubsub?: object
  autonat?: object
  relay?: RelayServer
  publicDht?: Directory
}

export type Node = Libp2p<Services>

/**
 * The part of a host in a node with two hosts. `trade`: calls under the seller's identity, and nothing else. `market`:
 * everything that meets other nodes. A node with one host has no role and does both.
 */
export type HostRole = 'trade' | 'market'

export type ModulesOptions = {
  role?: HostRole
  /** Port for both TCP and QUIC. With 0 each chooses a free port. */
  port: number
  listenHosts: readonly string[]
  announce: readonly Multiaddr[]
  mdns: boolean
  /** True if this node relays connections to peers that cannot be dialed. */
  relay?: boolean
  /** Set to join the public DHT too. `privateAddresses`: it is a DHT on a private network. */
  publicDht?: { privateAddresses: boolean } | undefined
  /** Limits for inbound connections; `inbound-places.ts` has the defaults. */
  inbound?: Partial<InboundLimits>
  /** The resolver for names, if it is not the machine's own. */
  dns?: Dns
  version: string
}

type ModulesDeps = {
  identity: Identity
  datastore: Datastore
  gossip: Gossip
  logger: Logger
  /** True if a peer is needed although nothing runs over its connection. */
  isNeeded?: (peerId: string) => boolean
  /** True for each identity of this node. It is never dialed. */
  isSelf?: (peerId: string) => boolean
  /** Limits dials on hearsay, because they cost others. */
  budget?: DialBudget
  /** Called with each peer that answers on the local network, each time it answers. */
  found: (peer: PeerInfo) => void
}

/** Builds the libp2p modules that this node runs. Nothing listens yet. `listenFailures` fills while libp2p starts. */
export async function createModules(options: ModulesOptions, deps: ModulesDeps) {
  const { publicDht } = options
  const budget = deps.budget ?? new DialBudget()
  const listenFailures: ListenFailure[] = []
  const relayed = createRelayTransport()
  const reuse = await tryPortReuse(options.port)
  let direct: Transport | undefined
  // The option reaches the socket, although the type does not name it.
  const listenOpts: object = reuse === undefined ? {} : { reusePort: true }
  const createTcp = (components: Parameters<ReturnType<typeof tcp>>[0]) => {
    const transport = tcp({ listenOpts })(components)
    direct = budgeted(reuse === undefined ? transport : dialFromPort(transport, reuse), budget)
    return direct
  }
  const noted =
    <C>(create: (components: C) => Transport) =>
    (components: C) =>
      noteFailures(create(components), listenFailures)
  const quic = await loadQuic(budget, deps.logger)
  const pinned = [`/peers/${peerIdFromString(deps.identity.peerId).toCID()}`, REACHED_PREFIX]

  keepInterfacesSteady()
  const openFiles = openFilesMax()
  // Two hosts share the open files of the process.
  const files = openFiles === undefined || options.role === undefined ? openFiles : openFiles / 2
  const room = { most: connectionsFor(files), ...options.inbound }
  const places = new InboundPlaces(room, {
    logger: deps.logger,
    connections: () => libp2p.getConnections(),
    isNeeded: (peer) => deps.isNeeded?.(peer.toString()) === true || libp2p.services.relay?.relaysFor(peer) === true,
  })
  const libp2p: Node = await createLibp2p<Services>({
    start: false,
    privateKey: deps.identity.privateKey,
    nodeInfo: { name: 'stoa', version: options.version, userAgent: `stoa/${options.version}` },
    datastore: new BoundedDatastore(deps.datastore, {
      entriesMax: PEERS_KEPT_MAX,
      valueBytesMax: PEER_BYTES_MAX,
      pinned,
    }),
    ...(options.dns !== undefined && { dns: options.dns as Libp2pInit['dns'] & object }),
    peerStore: { maxPeerAge: 30 * DAY_MS, maxAddressAge: 7 * DAY_MS },
    addresses: {
      listen: listenAddresses(options, quic !== undefined),
      // Append, do not replace: addresses that this node finds itself stay announced.
      appendAnnounce: options.announce.map(String),
      announceFilter: announceable,
    },
    transports: [noted(createTcp), ...(quic === undefined ? [] : [noted(quic)]), relayed.transport],
    connectionEncrypters: [batchingWrites(readingOn(noise()))],
    // A busy buyer opens many streams before this end is ready. libp2p drops the connection at its default of 10.
    streamMuxers: [() => takeBackAfterEnd(yamux({ maxEarlyStreams: 256 })())],
    // One failed listener must not stop the node: `checkListening` judges all of them.
    transportManager: { faultTolerance: FaultTolerance.NO_FATAL },
    connectionManager: {
      // `InboundPlaces` decides who may connect. The library would refuse the last to come.
      maxConnections: 2 * CONNECTIONS_MAX,
      // Per second and address. Nodes behind one NAT, and all nodes of a local demo, share one address.
      inboundConnectionThreshold: 32,
      // One address that connects and stays silent must not use up all connections.
      inboundUpgradeTimeout: 5_000,
      maxIncomingPendingConnections: Number.POSITIVE_INFINITY,
      maxPeerAddrsToDial: 16,
      dialTimeout: DIAL_MS_MAX,
      addressDialTimeout: 4_000,
    },
    // It aborts a healthy connection with all its streams after one slow ping. `heartbeat.ts` does this work instead,
    // until https://github.com/libp2p/js-libp2p/pull/3504 is released.
    connectionMonitor: { enabled: false },
    connectionGater: gater(places, {
      connectionsWith: (peerId) => libp2p.getConnections(peerIdFromString(peerId)).length,
      isSelf: deps.isSelf ?? (() => false),
    }),
    peerDiscovery: options.mdns && options.role !== 'trade' ? [await loadMdns(deps.found)] : [],
    services: {
      identify: identify(),
      identifyPush: identifyPush(),
      // The DHT and other modules ping too.
      ping: ping({ maxInboundStreams: 4, maxOutboundStreams: 4 }),
      inside: ({ transportManager, addressManager, upgrader }) => ({
        transportManager,
        addressManager,
        upgrader: upgrader as unknown as Inside['upgrader'],
      }),
      ...(options.role !== 'trade' && {
        dht: (components: KadDHTComponents) => createDht(components, budget),
        pubsub: deps.gossip.module(),
        autonat: answeringOnly(autoNATv2()),
        ...(options.relay === true && { relay: createRelayServer }),
        ...(publicDht !== undefined && {
          publicDht: (components: KadDHTComponents) => createPublicDht(components, publicDht, budget),
        }),
      }),
    },
  })
  boundAddresses(libp2p)
  skipKnownProtocols(libp2p)
  return { libp2p, listenFailures, reservations: relayed.reservations(libp2p), tcp: direct!, reuse }
}

/** TCP and QUIC on the same port number of each host. */
function listenAddresses({ port, listenHosts }: ModulesOptions, withQuic: boolean): string[] {
  return listenHosts.flatMap((host) => {
    if (isIP(host) === 0) {
      throw new CodedError('BAD_LISTEN_HOST', `cannot listen on "${host}" (NODE_LISTEN_HOST): give an IP address`)
    }
    const base = `/${host.includes(':') ? 'ip6' : 'ip4'}/${host}`
    return [`${base}/tcp/${port}`, ...(withQuic ? [`${base}/udp/${port}/quic-v1`] : [])]
  })
}

function gater(
  places: InboundPlaces,
  { connectionsWith, isSelf }: { connectionsWith(peerId: string): number; isSelf(peerId: string): boolean },
): ConnectionGater {
  return {
    denyDialPeer: (peer) => isSelf(peer.toString()),
    denyInboundConnection: (connection) => !places.admit(connection),
    // A peer's addresses come from others and may name anything that a transport accepts, even unix sockets.
    denyDialMultiaddr: (address) => !isDialable(address),
    filterMultiaddrForPeer: (_peer, address) => isDialable(address),
    denyInboundUpgradedConnection: (peer, connection) => {
      places.opened(connection)
      return connectionsWith(peer.toString()) >= CONNECTIONS_PER_PEER_MAX
    },
  }
}

/** Loads QUIC, which is native code built only for common platforms. On other platforms the node works over TCP. */
async function loadQuic(
  budget: DialBudget,
  logger: Logger,
): Promise<ReturnType<typeof import('@chainsafe/libp2p-quic').quic> | undefined> {
  try {
    const { quic } = await import('@chainsafe/libp2p-quic')
    const create = quic()
    return (components) => budgeted(tellResets(create(components)), budget)
  } catch (error) {
    const reason = reasonOf(error).split('\n', 1)[0]
    logger.warn({ reason }, 'the native code of QUIC is not installed here; peers are reached over TCP only')
    return undefined
  }
}

async function loadMdns(found: (peer: PeerInfo) => void): Promise<NonNullable<Libp2pInit['peerDiscovery']>[number]> {
  const { mdns } = await import('@libp2p/mdns')
  return (components) => {
    const discovery = mdns()(components)
    discovery.addEventListener('peer', (event) => found(event.detail))
    return discovery
  }
}
