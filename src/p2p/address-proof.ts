import type { Connection, IdentifyResult } from '@libp2p/interface'
import { isPrivate } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'
import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { Node } from './modules.ts'
import { isRelayed, transportOf } from './multiaddrs.ts'
import type { PeerBook } from './peer-book.ts'
import type { PublicPort } from './port-mapping.ts'
import { pause } from './waiting.ts'

/** Spoken by peers that dial an address back to see whether it leads here (AutoNAT v2). */
export const DIAL_REQUEST_PROTOCOL = '/libp2p/autonat/2/dial-request'
/** Peers other than the operator's own choice that must have seen this node come from an address before it is tried. */
const OBSERVERS_MIN = 2
const OBSERVERS_KEPT_MAX = 64
const ASKED_AT_ONCE_MAX = 4
/** A dial that is swallowed by a firewall takes this long to fail, and then some. */
const JUDGE_AFTER_MS = 15_000

export type ProofTiming = {
  /** How often it is looked whether something wants proof. */
  proofLookMs: number
  /** At most so often peers are asked. */
  proofEveryMs: number
}

export type AddressProofDeps = {
  libp2p: Node
  logger: Logger
  book: PeerBook
  clock: Clock
  /** Whether the operator named the peer. */
  isTrusted(peerId: string): boolean
  /** Whether the router is still being asked to pass the port on: what it says is better than a guess. */
  routerIsAsked(): boolean
}

/**
 * Finds out which public addresses lead to this node: those it listens on, and the one its connections are seen to come
 * from, with its own port, in case a router passes that on. Each is announced only once a peer has dialled it back, and
 * no longer when peers cannot any more.
 *
 * libp2p asks a peer once, as it connects: a port that is opened, closed or moved later it never hears of.
 */
export class AddressProof {
  readonly #deps: AddressProofDeps
  /** The address that each peer last saw this node come from. */
  readonly #seen = new Map<string, string>()
  /** What the router passes on, as it says. */
  #mapped: readonly PublicPort[] = []
  /** What it may pass on without saying. */
  #guessed: PublicPort | undefined
  /** Where peers saw this node come from while the router was being asked. */
  #guessLater: string | undefined
  #judging: NodeJS.Timeout | undefined
  #nextAt = 0
  #asked: ReadonlySet<string> = new Set()

  constructor(deps: AddressProofDeps) {
    this.#deps = deps
    deps.libp2p.addEventListener('peer:identify', ({ detail }) => this.#observed(detail))
  }

  /** Runs until the signal. */
  async run({ proofLookMs, proofEveryMs }: ProofTiming, signal: AbortSignal): Promise<void> {
    while (await pause(proofLookMs, signal)) {
      if (this.#guessLater !== undefined) this.#tryAt(this.#guessLater)
      this.#ask(proofEveryMs)
    }
    clearTimeout(this.#judging)
  }

  /** Asks peers to dial back what is not proved, or was proved a while ago. */
  #ask(everyMs: number): void {
    const { libp2p, book, logger } = this.#deps
    const candidates = this.#candidates()
    const isNew = candidates.some((address) => !this.#asked.has(address))
    if (candidates.length === 0 || (!isNew && performance.now() < this.#nextAt)) return
    const peers = new Map<string, Connection>()
    for (const connection of libp2p.getConnections()) {
      const peerId = connection.remotePeer.toString()
      if (connection.limits === undefined && book.speaks(peerId, DIAL_REQUEST_PROTOCOL)) peers.set(peerId, connection)
    }
    if (peers.size === 0) return
    this.#nextAt = performance.now() + everyMs
    this.#asked = new Set(candidates)
    const { client } = libp2p.services.autonat
    client.dialResults.clear()
    for (const connection of [...peers.values()].slice(0, ASKED_AT_ONCE_MAX)) {
      client.verifyExternalAddresses(connection).catch((error: unknown) => {
        logger.debug({ reason: reasonOf(error) }, 'a peer could not be asked to dial back')
      })
    }
    clearTimeout(this.#judging)
    this.#judging = setTimeout(() => this.#judge(), JUDGE_AFTER_MS).unref()
  }

  /** Public addresses of its own whose proof is missing or old. */
  #candidates(): string[] {
    const all = this.#deps.libp2p.services.inside.addressManager.getAddressesWithMetadata()
    const now = this.#deps.clock.now()
    return all
      .filter(({ type, expires }) => type !== 'announce' && expires < now)
      .filter(({ multiaddr: address }) => !isRelayed(address) && !isPrivate(address))
      .map(({ multiaddr: address }) => address.toString())
  }

  /** What was proved once and now failed with all that were asked is no longer announced. */
  #judge(): void {
    const { addressManager } = this.#deps.libp2p.services.inside
    for (const [text, { success, failure }] of this.#deps.libp2p.services.autonat.client.dialResults) {
      if (success === 0 && failure > 0) addressManager.removeObservedAddr(multiaddr(text))
    }
  }

  #observed({ peerId, observedAddr, connection }: IdentifyResult): void {
    if (observedAddr === undefined || connection.direction !== 'outbound' || connection.limits !== undefined) return
    const [host] = observedAddr.getComponents()
    if (host?.name !== 'ip4' || host.value === undefined || isPrivate(observedAddr)) return
    const seenBy = peerId.toString()
    this.#seen.delete(seenBy)
    this.#seen.set(seenBy, host.value)
    if (this.#seen.size > OBSERVERS_KEPT_MAX) this.#seen.delete(this.#seen.keys().next().value as string)
    const agreed = [...this.#seen].filter(([, ip]) => ip === host.value).length
    if (this.#deps.isTrusted(seenBy) || agreed >= OBSERVERS_MIN) this.#tryAt(host.value)
  }

  /** Takes what the router passes on, instead of what it did before, and of a guess at the same address. */
  mapped(ports: readonly PublicPort[]): void {
    const same = (a: PublicPort, b: PublicPort) => JSON.stringify(a) === JSON.stringify(b)
    for (const old of this.#mapped) if (!ports.some((port) => same(old, port))) this.#remove(old)
    const fresh = ports.filter((port) => !this.#mapped.some((old) => same(old, port)))
    this.#mapped = ports
    // libp2p proves an address of a host, and takes all of that host for proved.
    if (ports.some(({ externalHost }) => externalHost === this.#guessed?.externalHost)) this.#guess(undefined)
    for (const port of fresh) this.#add(port)
    if (fresh.length > 0) this.#asked = new Set()
  }

  /** Adds the address as one that a router may pass on to this node. */
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
