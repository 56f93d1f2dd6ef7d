import type { Connection, MultiaddrConnection, PeerId } from '@libp2p/interface'
import { systemClock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { CONNECTIONS_PER_ADDRESS } from '../schema/limits.ts'
import { isRelayed, transportOf } from './multiaddrs.ts'
import { hostIn, siteOf } from './networks.ts'

/** Connections in all. `RESERVED_FOR_NEWCOMERS` of them are only for addresses that have no connection yet. */
export const CONNECTIONS_MAX = 300
const RESERVED_FOR_NEWCOMERS = 32
/**
 * Share of the open files of the process that connections may use. Runs, listeners, the database and outgoing calls
 * need the rest.
 */
const SHARE_OF_FILES = 1 / 4
/**
 * Connections without a known peer id. QUIC has its own limit, because a QUIC connection identifies its peer before it
 * is counted.
 */
const PENDING_MAX = { tcp: 256, quic: 128 }
const PENDING_PER_SITE_MAX = 32
const FIRST_BYTE_MS = 2000
/** A connection younger than this may be about to open its first stream. */
const SETTLING_MS = 5000
const CLOSE_MS_MAX = 500
const WARN_EVERY_MS = 60_000
/** Streams that every peer opens, even if it wants nothing. */
const HOUSEKEEPING = /^\/(meshsub|floodsub|ipfs\/id|ipfs\/ping|ipfs\/kad|node\/kad|libp2p\/autonat)\//

/** Inbound connections allowed if the process may open this many files. */
export function connectionsFor(openFiles = Number.POSITIVE_INFINITY): number {
  return Math.min(CONNECTIONS_MAX, Math.floor(openFiles * SHARE_OF_FILES))
}

export type InboundLimits = {
  most: number
  reserved: number
  perAddress: number
  firstByteMs: number
  settlingMs: number
}

type InboundPlacesDeps = {
  logger: Logger
  connections(): Connection[]
  /**
   * True if a peer is needed although nothing runs over its connection: the operator named it, or this node relays for
   * it.
   */
  isNeeded(peer: PeerId): boolean
}

type Pending = { site: string; kind: 'tcp' | 'quic'; hasSpoken: boolean; timer: NodeJS.Timeout }

/**
 * Decides who may connect (D52). A party with one address and many peer ids gets the connections of one address. When
 * no room is left, an idle connection of the address with the most connections is closed for a newcomer. A newcomer is
 * refused only if no such connection is idle.
 */
export class InboundPlaces {
  readonly #limits: InboundLimits
  readonly #deps: InboundPlacesDeps
  /** Oldest first. */
  readonly #pending = new Map<MultiaddrConnection, Pending>()
  readonly #closing = new WeakSet<Connection>()
  #warnAt = 0

  constructor(limits: Partial<InboundLimits>, deps: InboundPlacesDeps) {
    this.#limits = {
      most: CONNECTIONS_MAX,
      reserved: RESERVED_FOR_NEWCOMERS,
      perAddress: CONNECTIONS_PER_ADDRESS,
      firstByteMs: FIRST_BYTE_MS,
      settlingMs: SETTLING_MS,
      ...limits,
    }
    this.#deps = deps
  }

  /** Returns whether a new inbound connection may continue. */
  admit(connection: MultiaddrConnection): boolean {
    const site = siteIn(connection)
    const kind = transportOf(connection.remoteAddr) === 'quic' ? 'quic' : 'tcp'
    if (!this.#hasPlace(site) || !this.#mayPend(site, kind)) return false
    this.#pend(connection, site, kind)
    return true
  }

  /** Records that the peer id of a connection is known. It counts as a full connection from now on. */
  opened(connection: MultiaddrConnection): void {
    this.#settle(connection)
  }

  #hasPlace(site: string): boolean {
    const { most, reserved, perAddress } = this.#limits
    const open = this.#deps.connections().filter((one) => !this.#closing.has(one))
    const crowd = new Map<string, number>()
    for (const one of [...open.filter(isInbound).map(siteIn), ...this.#pendingSites()]) {
      crowd.set(one, (crowd.get(one) ?? 0) + 1)
    }
    const own = crowd.get(site) ?? 0
    if (own >= perAddress) {
      this.#warn(site, own, `one address gets ${perAddress} connections`)
      return this.#closeIdle(open, (one) => one === site, crowd)
    }
    const total = open.length + this.#pending.size
    if (total < (own === 0 ? most : most - reserved)) return true
    const [fullest = '', held = 0] = [...crowd].toSorted(([, a], [, b]) => b - a)[0] ?? []
    this.#warn(fullest, held, `all ${most} places for connections are taken`)
    return this.#closeIdle(open, (one) => (crowd.get(one) ?? 0) > own, crowd)
  }

  /**
   * Closes the youngest idle connection among the sites that `isMeant` selects, at the site with the most connections.
   */
  #closeIdle(
    open: readonly Connection[],
    isMeant: (site: string) => boolean,
    crowd: ReadonlyMap<string, number>,
  ): boolean {
    // libp2p dates connections by the machine's clock.
    const settledAt = systemClock.now() - this.#limits.settlingMs
    const idle = open.filter(
      (one) =>
        isInbound(one) &&
        isMeant(siteIn(one)) &&
        one.timeline.open <= settledAt &&
        one.streams.every(({ protocol }) => HOUSEKEEPING.test(protocol)) &&
        !this.#deps.isNeeded(one.remotePeer),
    )
    const [first] = idle.toSorted(
      (a, b) => (crowd.get(siteIn(b)) ?? 0) - (crowd.get(siteIn(a)) ?? 0) || b.timeline.open - a.timeline.open,
    )
    if (first === undefined) return false
    this.#closing.add(first)
    first.close({ signal: AbortSignal.timeout(CLOSE_MS_MAX) }).catch((error: Error) => first.abort(error))
    return true
  }

  #mayPend(site: string, kind: Pending['kind']): boolean {
    const alike = [...this.#pending].filter(([, one]) => one.kind === kind)
    const own = alike.filter(([, one]) => one.site === site)
    if (own.length >= PENDING_PER_SITE_MAX) return this.#dropSilent(own)
    if (alike.length < PENDING_MAX[kind]) return true
    const crowd = Map.groupBy(alike, ([, one]) => one.site)
    return this.#dropSilent([...crowd.values()].toSorted((a, b) => b.length - a.length)[0] ?? [])
  }

  /** Ends the connection that was silent for the longest time. */
  #dropSilent(pending: readonly (readonly [MultiaddrConnection, Pending])[]): boolean {
    const [silent] = pending.find(([, { hasSpoken }]) => !hasSpoken) ?? []
    if (silent === undefined) return false
    this.#settle(silent)
    silent.abort(new Error('it sent nothing, and others wait'))
    return true
  }

  #pend(connection: MultiaddrConnection, site: string, kind: Pending['kind']): void {
    const pending: Pending = { site, kind, hasSpoken: false, timer: this.#whenSilent(connection) }
    this.#pending.set(connection, pending)
    connection.addEventListener('close', () => this.#settle(connection), { once: true })
    // Wrap `onData`: no other hook sees the first byte without taking it from its reader.
    const raw = connection as unknown as { onData?(data: unknown): void }
    const onData = raw.onData
    if (onData === undefined) return
    raw.onData = (data) => {
      pending.hasSpoken = true
      raw.onData = onData
      onData.call(connection, data)
    }
  }

  #whenSilent(connection: MultiaddrConnection): NodeJS.Timeout {
    const judge = () => {
      if (this.#pending.get(connection)?.hasSpoken !== false) return
      this.#settle(connection)
      connection.abort(new Error(`it sent nothing for ${this.#limits.firstByteMs} ms`))
    }
    // Wait two turns, so that bytes that arrived while this node was busy are read first.
    return setTimeout(() => setImmediate(() => setImmediate(judge)), this.#limits.firstByteMs).unref()
  }

  #settle(connection: MultiaddrConnection): void {
    clearTimeout(this.#pending.get(connection)?.timer)
    this.#pending.delete(connection)
  }

  #pendingSites(): string[] {
    return Array.from(this.#pending.values(), ({ site }) => site)
  }

  #warn(site: string, held: number, why: string): void {
    if (performance.now() < this.#warnAt) return
    this.#warnAt = performance.now() + WARN_EVERY_MS
    const fix =
      'idle ones are closed for others; where honest peers share that address (a proxy, a NAT), raise NODE_CONNECTIONS_PER_ADDRESS, else block it in the firewall'
    this.#deps.logger.warn({ address: site, count: held }, `${why}, and ${site} holds ${held}: ${fix}`)
  }
}

function isInbound({ direction }: Connection): boolean {
  return direction === 'inbound'
}

/**
 * The site of a connection. Calls over a relay have the relay's address, but count apart from the relay's own
 * connections.
 */
function siteIn({ remoteAddr }: { remoteAddr: Connection['remoteAddr'] }): string {
  const site = siteOf(hostIn(remoteAddr))
  return isRelayed(remoteAddr) ? `relay ${site}` : site
}
