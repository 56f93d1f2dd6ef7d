import { isLoopback, isPrivate } from '@libp2p/utils'
import { BoundedMap } from '../../lib/bounded-map.ts'
import type { Logger } from '../../lib/logger.ts'
import { type Backoff, backoffMs } from '../../lib/retry.ts'
import { idle } from '../../lib/wait.ts'
import { DHT_PROTOCOL } from '../dht.ts'
import type { Reservations } from '../libp2p-fixes/relay-transport.ts'
import type { Node } from '../modules.ts'
import { isRelayed } from '../multiaddrs.ts'
import type { PeerBook } from '../peer-book.ts'

/** The protocol of peers that relay for others. */
export const HOP_PROTOCOL = '/libp2p/circuit/relay/0.2.0/hop'
/** Two, so that one may fail. */
const RELAYS_WANTED = 2
const FAILED_KEPT_MAX = 200

export type RelayTiming = {
  /** How often to check whether there are enough relays. */
  relayLookMs: number
  /** How long a node waits after its start for proof that it can be dialed, before it asks for a relay. */
  relayAfterMs: number
  relayRetry: Backoff
}

type RelaysDeps = {
  libp2p: Node
  logger: Logger
  book: PeerBook
  reservations: Reservations
  /** True if the operator named the relay. Named relays are used before others. */
  isConfigured(peerId: string): boolean
  /** True if this node can be dialed without a relay. */
  isPublic(): boolean
  /** Called when a relay is found, lost or released. */
  changed(): void
}

/**
 * Keeps reservations at relays for a node that nobody can dial. It finds relays among its peers, reserves, and replaces
 * lost reservations. libp2p renews a reservation, but never makes it again after the connection to the relay broke.
 */
export class Relays {
  readonly #timing: RelayTiming
  readonly #deps: RelaysDeps
  readonly #held = new Set<string>()
  readonly #failed = new BoundedMap<string, { failures: number; againAt: number }>(FAILED_KEPT_MAX)

  constructor(timing: RelayTiming, deps: RelaysDeps) {
    this.#timing = timing
    this.#deps = deps
  }

  /** Peer ids of the relays through which this node can be reached now. */
  list(): string[] {
    return [...this.#held].filter((peerId) => this.#deps.reservations.has(peerId))
  }

  async run(signal: AbortSignal): Promise<void> {
    const from = performance.now() + this.#timing.relayAfterMs
    while (await idle(this.#timing.relayLookMs, signal)) {
      this.#noteLost()
      if (this.#deps.isPublic()) this.#releaseAll()
      else if (performance.now() >= from) await this.#reserve(signal)
    }
  }

  #noteLost(): void {
    for (const peerId of this.#held) {
      if (this.#deps.reservations.has(peerId)) continue
      this.#held.delete(peerId)
      const lost = this.#deps.reservations.isDishonest(peerId)
        ? 'a relay sent too much or addresses of others: it is not used for an hour; looking for another'
        : 'a relay was lost; looking for another'
      this.#deps.logger.warn({ peer_id: peerId }, lost)
      this.#deps.changed()
    }
  }

  #releaseAll(): void {
    for (const peerId of this.#held) {
      this.#deps.reservations.release(peerId)
      this.#held.delete(peerId)
      this.#deps.logger.info({ peer_id: peerId }, 'this node can be dialed now; the relay is released')
      this.#deps.changed()
    }
  }

  async #reserve(signal: AbortSignal): Promise<void> {
    for (const peerId of this.#candidates()) {
      if (this.#held.size >= RELAYS_WANTED || signal.aborted) return
      try {
        await this.#deps.reservations.take(peerId)
        this.#held.add(peerId)
        this.#failed.delete(peerId)
        this.#deps.logger.info({ peer_id: peerId }, 'reachable through a relay')
        this.#deps.changed()
      } catch (error) {
        this.#noteFailure(peerId)
        const { logger, reservations } = this.#deps
        logger[reservations.isDishonest(peerId) ? 'warn' : 'debug'](
          { peer_id: peerId, err: error },
          'a relay gave no reservation',
        )
      }
    }
  }

  /** Connected relays, the best first: named relays, then those with public addresses. */
  #candidates(): string[] {
    const { libp2p, book, isConfigured, reservations } = this.#deps
    const rank = new Map<string, number>()
    for (const { remotePeer, remoteAddr, direction } of libp2p.getConnections()) {
      const peerId = remotePeer.toString()
      // Skip peers that dialed us: they can reach us, and we do not know where others can dial them.
      if (direction !== 'outbound' || isRelayed(remoteAddr) || !book.speaks(peerId, HOP_PROTOCOL)) continue
      const named = isConfigured(peerId)
      // A relay of the public network would cut off a call after 128 KiB.
      if (!named && !book.speaks(peerId, DHT_PROTOCOL)) continue
      if (
        this.#held.has(peerId) ||
        reservations.isDishonest(peerId) ||
        (this.#failed.get(peerId)?.againAt ?? 0) > performance.now()
      )
        continue
      const reach = isLoopback(remoteAddr) ? 3 : isPrivate(remoteAddr) ? 2 : 1
      rank.set(peerId, Math.min(rank.get(peerId) ?? reach, named ? 0 : reach))
    }
    return [...rank.keys()].toSorted((a, b) => rank.get(a)! - rank.get(b)!)
  }

  #noteFailure(peerId: string): void {
    const failures = (this.#failed.get(peerId)?.failures ?? 0) + 1
    this.#failed.set(peerId, { failures, againAt: performance.now() + backoffMs(failures, this.#timing.relayRetry) })
  }
}
