import type { Connection, IdentifyResult } from '@libp2p/interface'
import { isPrivate } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'
import { BoundedMap } from '../../lib/bounded-map.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import { doubledMs } from '../../lib/retry.ts'
import { idle } from '../../lib/wait.ts'
import type { Node } from '../modules.ts'
import { isRelayed, transportOf } from '../multiaddrs.ts'
import { hostIn, networkOf } from '../networks.ts'
import type { PeerBook } from '../peer-book.ts'
import type { PublicPort } from '../upnp/port-mapping.ts'
import { DIAL_REQUEST_PROTOCOL, type DialBack, type DialedBack } from './dial-back.ts'

/** Networks whose peers must have seen this node come from an address before the address is tried. */
const OBSERVERS_MIN = 2
const OBSERVERS_KEPT_MAX = 64
const ASKED_AT_ONCE_MAX = 8
const ASKED_KEPT_MAX = 1024
/**
 * D52: peers of this many networks must have dialed an address back before it is announced. One peer that the operator
 * named is enough too.
 */
const NETWORKS_WANTED = 3
/** How long a proof counts. */
const PROOF_KEPT_MS = 6 * 60 * 60 * 1000

export type ProofTiming = {
  /** How often to check whether an address needs proof. */
  proofLookMs: number
  /** How often to ask a peer again about an address that it has dialed back. */
  proofEveryMs: number
  /** Wait before a peer is asked again after it proved nothing. The wait doubles up to `proofEveryMs`. */
  proofRetryMs: number
}

type AddressProofDeps = {
  libp2p: Node
  logger: Logger
  book: PeerBook
  clock: Clock
  dialBack: Pick<DialBack, 'ask'>
  /** True if the operator named the peer. */
  isTrusted(peerId: string): boolean
  /** True while the router is still being asked to forward the port. Its answer is better than a guess. */
  routerIsAsked(): boolean
}

/**
 * Finds out which public addresses lead to this node. Candidates are the addresses it listens on. Another candidate is
 * the address that peers see, with this node's own port, in case a router forwards that port. An address is announced
 * only once peers of several networks have dialed it back (D52: one or two peers may lie). When peers can no longer
 * dial it, it is withdrawn.
 *
 * libp2p asks a peer only once, when it connects. It never notices a port that is opened, closed or moved later.
 */
export class AddressProof {
  readonly #deps: AddressProofDeps
  /** The address that each peer last saw this node come from. */
  readonly #seen = new BoundedMap<string, { ip: string; network: string }>(OBSERVERS_KEPT_MAX)
  /** By address: the networks whose peers dialed it back, and when they last did. */
  readonly #proofs = new Map<string, Map<string, number>>()
  /** By address: the networks whose peers could not dial it since the last success. */
  readonly #failures = new Map<string, Set<string>>()
  /** By peer and address: when to ask again. After a failure also the length of that wait. */
  readonly #asked = new BoundedMap<string, { againAt: number; missed: number }>(ASKED_KEPT_MAX)
  /** The ports that the router says it forwards. */
  #mapped: readonly PublicPort[] = []
  /** A port that the router may forward without saying so. */
  #guessed: PublicPort | undefined
  /** The address that peers saw while the router was being asked. */
  #guessLater: string | undefined
  #isAsking = false

  constructor(deps: AddressProofDeps) {
    this.#deps = deps
    deps.libp2p.addEventListener('peer:identify', ({ detail }) => this.#observed(detail))
  }

  async run(timing: ProofTiming, signal: AbortSignal): Promise<void> {
    while (await idle(timing.proofLookMs, signal)) {
      if (this.#guessLater !== undefined) this.#tryAt(this.#guessLater)
      if (this.#isAsking) continue
      this.#isAsking = true
      void this.#ask(timing, signal).finally(() => {
        this.#isAsking = false
      })
    }
  }

  /** Asks peers to dial back addresses whose proof is missing or old. */
  async #ask(timing: ProofTiming, signal: AbortSignal): Promise<void> {
    const candidates = this.#candidates()
    for (const text of this.#proofs.keys()) if (!this.#isKnown(text)) this.#forget(text)
    if (candidates.length === 0) return
    const asked = new Set<string>()
    const proved = new Set<string>()
    const peers = this.#peers().flatMap((connection) => {
      const due = candidates.filter((text) => this.#isDue(connection, text))
      return due.length === 0 ? [] : [{ connection, due }]
    })
    await Promise.all(
      peers.slice(0, ASKED_AT_ONCE_MAX).map(async ({ connection, due }) => {
        for (const text of due) {
          const came = await this.#askOne(connection, text, signal)
          this.#noteAsked(connection, text, came, timing)
          if (came === 'arrived' || came === 'failed') asked.add(text)
          if (came === 'arrived') proved.add(text)
        }
      }),
    )
    if (signal.aborted) return
    for (const text of asked) if (!proved.has(text)) this.#judge(text)
  }

  async #askOne(connection: Connection, text: string, signal: AbortSignal): Promise<DialedBack | 'unheard'> {
    const came = await this.#deps.dialBack.ask(connection, multiaddr(text), signal).catch((error: unknown) => {
      this.#deps.logger.debug({ err: error }, 'a peer could not be asked to dial back')
      // A node that moved asks over dead connections. Ask the peer again over its next connection.
      return connection.status === 'open' ? ('refused' as const) : ('unheard' as const)
    })
    const network = networkOf(hostIn(connection.remoteAddr))
    const isTrusted = this.#deps.isTrusted(connection.remotePeer.toString())
    if (came === 'failed') {
      const failures = this.#failures.get(text) ?? new Set()
      this.#failures.set(text, failures.add(isTrusted ? 'named by the operator' : network))
    }
    if (came !== 'arrived') return came
    this.#failures.delete(text)
    const proofs = this.#proofs.get(text) ?? new Map<string, number>()
    const now = performance.now()
    proofs.set(network, now)
    for (const [one, at] of proofs) if (at < now - PROOF_KEPT_MS) proofs.delete(one)
    this.#proofs.set(text, proofs)
    if (isTrusted || proofs.size >= NETWORKS_WANTED) {
      this.#deps.libp2p.services.inside.addressManager.confirmObservedAddr(multiaddr(text))
    }
    return came
  }

  /** Withdraws an address that failed with peers of several networks, or with all there are. */
  #judge(text: string): void {
    const failures = this.#failures.get(text)
    if (failures === undefined) return
    const networks = new Set(this.#peers().map(({ remoteAddr }) => networkOf(hostIn(remoteAddr))))
    const enough = Math.min(NETWORKS_WANTED, networks.size)
    if (!failures.has('named by the operator') && failures.size < enough) return
    this.#forget(text)
    this.#deps.libp2p.services.inside.addressManager.removeObservedAddr(multiaddr(text))
  }

  /**
   * Connected peers that dial back. Peers that the operator named come first, then one peer of each network before a
   * second.
   */
  #peers(): Connection[] {
    const { libp2p, book, isTrusted } = this.#deps
    const peers = new Map<string, Connection>()
    for (const connection of libp2p.getConnections()) {
      const peerId = connection.remotePeer.toString()
      if (connection.limits === undefined && book.speaks(peerId, DIAL_REQUEST_PROTOCOL)) peers.set(peerId, connection)
    }
    const before = new Map<string, number>()
    const ranked = [...peers].map(([peerId, connection]) => {
      const network = networkOf(hostIn(connection.remoteAddr))
      const rank = before.get(network) ?? 0
      before.set(network, rank + 1)
      return { connection, rank: isTrusted(peerId) ? -1 : rank }
    })
    return ranked.toSorted((a, b) => a.rank - b.rank).map(({ connection }) => connection)
  }

  #isDue(connection: Connection, text: string): boolean {
    const asked = this.#asked.get(keyOf(connection, text))
    return asked === undefined || performance.now() >= asked.againAt
  }

  #noteAsked(connection: Connection, text: string, came: DialedBack | 'unheard', timing: ProofTiming): void {
    const { proofEveryMs, proofRetryMs } = timing
    const key = keyOf(connection, text)
    const missed = came === 'arrived' ? 0 : (this.#asked.get(key)?.missed ?? 0) + 1
    this.#asked.delete(key)
    if (came === 'unheard') return
    // The peer may have been asked over a connection that is about to close, if two were made at once. Such a
    // connection says that it is open until the end. Retry soon.
    const waitMs = missed === 0 ? proofEveryMs : doubledMs(missed, { firstMs: proofRetryMs, mostMs: proofEveryMs })
    this.#asked.set(key, { againAt: performance.now() + waitMs, missed })
  }

  #forget(text: string): void {
    this.#proofs.delete(text)
    this.#failures.delete(text)
  }

  #isKnown(text: string): boolean {
    const all = this.#deps.libp2p.services.inside.addressManager.getAddressesWithMetadata()
    return all.some(({ multiaddr: address }) => address.toString() === text)
  }

  /** Public addresses of this node whose proof is missing or old. */
  #candidates(): string[] {
    const all = this.#deps.libp2p.services.inside.addressManager.getAddressesWithMetadata()
    const now = this.#deps.clock.now()
    return all
      .filter(({ type, expires }) => type !== 'announce' && expires < now)
      .filter(({ multiaddr: address }) => !isRelayed(address) && !isPrivate(address))
      .map(({ multiaddr: address }) => address.toString())
  }

  #observed({ peerId, observedAddr, connection }: IdentifyResult): void {
    if (observedAddr === undefined || connection.direction !== 'outbound' || connection.limits !== undefined) return
    const [host] = observedAddr.getComponents()
    if (host?.name !== 'ip4' || host.value === undefined || isPrivate(observedAddr)) return
    const seenBy = peerId.toString()
    this.#seen.set(seenBy, { ip: host.value, network: networkOf(hostIn(connection.remoteAddr)) })
    const agreed = new Set([...this.#seen.values()].filter(({ ip }) => ip === host.value).map(({ network }) => network))
    if (this.#deps.isTrusted(seenBy) || agreed.size >= OBSERVERS_MIN) this.#tryAt(host.value)
  }

  /** Replaces the forwarded ports by the router's current list. Drops a guess at the same address. */
  mapped(ports: readonly PublicPort[]): void {
    const same = (a: PublicPort, b: PublicPort) => JSON.stringify(a) === JSON.stringify(b)
    for (const old of this.#mapped) if (!ports.some((port) => same(old, port))) this.#remove(old)
    const fresh = ports.filter((port) => !this.#mapped.some((old) => same(old, port)))
    this.#mapped = ports
    // libp2p proves one address of a host and then treats all addresses of that host as proved.
    if (ports.some(({ externalHost }) => externalHost === this.#guessed?.externalHost)) this.#guess(undefined)
    for (const port of fresh) this.#add(port)
    if (fresh.length > 0) this.#asked.clear()
  }

  /** Adds an address that a router may forward to this node. */
  #tryAt(externalHost: string): void {
    if (this.#deps.routerIsAsked()) {
      this.#guessLater = externalHost
      return
    }
    this.#guessLater = undefined
    if ([this.#guessed, ...this.#mapped].some((port) => port?.externalHost === externalHost)) return
    const { transportManager } = this.#deps.libp2p.services.inside
    const listening = transportManager.getAddrs().filter((address) => transportOf(address) === 'tcp')
    const hosts = listening.map((address) => address.getComponents().map(({ value }) => value ?? ''))
    if (hosts.some(([host]) => host === externalHost)) return
    const [host, text] = hosts.find(([ip = '']) => /^[0-9.]+$/.test(ip) && !ip.startsWith('127.')) ?? []
    if (host === undefined || text === undefined) return
    const port = Number(text)
    this.#guess({ protocol: 'tcp', host, port, externalHost, externalPort: port })
  }

  #guess(port: PublicPort | undefined): void {
    if (this.#guessed !== undefined) this.#remove(this.#guessed)
    this.#guessed = port
    if (port !== undefined) this.#add(port)
  }

  #add({ protocol, host, port, externalHost, externalPort }: PublicPort): void {
    const { addressManager } = this.#deps.libp2p.services.inside
    addressManager.addPublicAddressMapping(host, port, externalHost, externalPort, protocol)
  }

  #remove({ protocol, host, port, externalHost, externalPort }: PublicPort): void {
    const { addressManager } = this.#deps.libp2p.services.inside
    addressManager.removePublicAddressMapping(host, port, externalHost, externalPort, protocol)
  }
}

function keyOf({ remotePeer }: Connection, text: string): string {
  return `${remotePeer} ${text}`
}
