import type { Multiaddr } from '@multiformats/multiaddr'
import type { Datastore } from 'interface-datastore'
import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { AddressProof, type ProofTiming } from './address-proof.ts'
import { keepConnected, type RetryTiming } from './bootstrap.ts'
import { Connector, type ConnectorTiming } from './connector.ts'
import { Discovery, type DiscoveryTiming } from './discovery.ts'
import { Gossip } from './gossip.ts'
import { type HeartbeatOptions, runHeartbeat } from './heartbeat.ts'
import { HolePunch } from './hole-punch.ts'
import type { Identity } from './identity.ts'
import type { ListenFailure } from './listening.ts'
import { createModules, type Node } from './modules.ts'
import { type PeerAddresses, parseAnnounce, parseBootstrap } from './multiaddrs.ts'
import { OwnAddresses } from './own-addresses.ts'
import { PeerBook } from './peer-book.ts'
import { PING_PROTOCOL } from './ping.ts'
import { publicAddresses } from './reachability.ts'
import { Relays, type RelayTiming } from './relays.ts'

export type HostOptions = {
  /** For TCP and QUIC alike; 0 lets each choose a free one. */
  port: number
  listenHosts: readonly string[]
  bootstrap: readonly string[]
  /** What the operator knows this node can be reached at. Trusted. */
  announce: readonly string[]
  mdns: boolean
  /** Relays this node may be reached through, beside those it finds. */
  relays?: readonly string[]
  /** Whether it is a relay for others. */
  relay?: boolean
  version: string
  timing?: Partial<HostTiming>
}

export type HostTiming = { retry: RetryTiming } & ConnectorTiming &
  DiscoveryTiming &
  RelayTiming &
  ProofTiming &
  HeartbeatOptions

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
  beatEveryMs: 2000,
  proofLookMs: 1000,
  proofEveryMs: 5 * 60_000,
  relayLookMs: 1000,
  relayAfterMs: 5000,
  relayRetry: { firstMs: 15_000, mostMs: 30 * 60 * 1000 },
}

/** What the host is made of, and what it was told. */
export type Parts = {
  libp2p: Node
  listenFailures: ListenFailure[]
  addresses: OwnAddresses
  gossip: Gossip
  book: PeerBook
  connector: Connector
  discovery: Discovery
  relays: Relays
  proof: AddressProof
  punch: HolePunch
  /** Protocols that may be spoken over a relay. */
  relayed: Set<string>
  /** Peers that connections are kept with: bootstrap peers and relays the operator named. */
  kept: readonly PeerAddresses[]
  announce: readonly Multiaddr[]
  port: number
  timing: HostTiming
}

/** @throws CodedError `BAD_MULTIADDR`, `BAD_LISTEN_HOST` */
export async function createParts(options: HostOptions, deps: HostDeps): Promise<Parts> {
  const { identity, logger, clock } = deps
  const configured = parseBootstrap(options.relays ?? [], identity.peerId)
  const kept = parseBootstrap([...options.bootstrap, ...(options.relays ?? [])], identity.peerId)
  const announce = parseAnnounce(options.announce, identity.peerId)
  const timing = { ...TIMING, ...options.timing }
  const gossip = new Gossip(deps)
  let discovery: Discovery | undefined
  const { libp2p, listenFailures, reservations, tcp, reuse } = await createModules(
    { ...options, announce },
    { ...deps, gossip, found: (peer) => discovery?.offer(peer) },
  )
  const book = new PeerBook(libp2p)
  libp2p.addEventListener('connection:close', ({ detail: { remotePeer } }) => {
    // Its streams close a moment later.
    setTimeout(() => {
      const left = libp2p.status === 'started' ? book.connections(remotePeer.toString()).at(-1) : undefined
      if (left !== undefined) gossip.resume(left)
    }, 100).unref()
  })
  const relayed = new Set<string>([PING_PROTOCOL])
  const mayBeRelayed = (protocol: string) => relayed.has(protocol)
  const connector = new Connector(timing, { libp2p, book, clock, mayBeRelayed })
  const connected = (peerId: string) => book.connected(peerId)
  discovery = new Discovery(timing, {
    libp2p,
    logger,
    connected,
    dial: ({ peerId, addresses }, signal) => connector.connect({ peerId, addrs: addresses }, signal),
  })
  const addresses = new OwnAddresses({ libp2p, logger })
  const isPublic = () => options.relay === true || publicAddresses(libp2p.getMultiaddrs()).length > 0
  const changed = () => addresses.check()
  const relays = new Relays(timing, { libp2p, logger, book, reservations, configured, isPublic, changed })
  const punch = new HolePunch({ libp2p, logger, book, connector, tcp, reuse })
  const isTrusted = (peerId: string) => kept.some((peer) => peer.peerId === peerId)
  const proof = new AddressProof({ libp2p, logger, book, clock, isTrusted })
  const told = { kept, announce, port: options.port, timing }
  return {
    libp2p,
    listenFailures,
    addresses,
    gossip,
    book,
    connector,
    discovery,
    relays,
    proof,
    punch,
    relayed,
    ...told,
  }
}

/** All that goes on while the host runs, until the signal. */
export async function runParts(parts: Parts, { logger }: { logger: Logger }, signal: AbortSignal): Promise<void> {
  const { libp2p, addresses, book, discovery, relays, proof, punch, kept, timing } = parts
  const connected = (peerId: string) => book.connected(peerId)
  const heartbeat = {
    libp2p,
    logger,
    noteLatency: book.noteLatency.bind(book),
    beat: () => addresses.check(),
    movedAt: () => addresses.movedAt,
  }
  const ended = await Promise.allSettled([
    ...kept.map((peer) => keepConnected(peer, timing.retry, { libp2p, logger, connected }, signal)),
    discovery.run(signal),
    relays.run(signal),
    proof.run(timing, signal),
    punch.run(signal),
    runHeartbeat(timing, heartbeat, signal),
  ])
  for (const { reason } of ended.filter((one) => one.status === 'rejected')) {
    logger.error({ reason: reasonOf(reason) }, 'a part of the peer-to-peer host has ended early')
  }
}
