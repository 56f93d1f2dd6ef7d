import type { PeerInfo } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { Logger } from '../lib/logger.ts'
import { backoffMs } from '../lib/retry.ts'
import { idle } from '../lib/wait.ts'
import { DIAL_MS_MAX } from './dial.ts'
import type { Node } from './modules.ts'
import type { PeerAddresses } from './multiaddrs.ts'

/**
 * With this many outbound connections, a node stops looking for peers. Others can still find it. Inbound connections do
 * not count. A party that opens many of them must not decide which peers this node meets.
 */
const PEERS_WANTED = 100
/** With fewer outbound connections than this, remembered peers are tried again. */
const PEERS_FEW = 4
const CANDIDATES_MAX = 256
const ADDRESSES_PER_CANDIDATE_MAX = 16
const DIALS_AT_ONCE_MAX = 8
const FAILED_KEPT_MAX = 1000
const REMEMBERED_TRIED_MAX = 100
/** Wait before a peer that could not be reached is tried again. The wait doubles each time. */
const AGAIN = { firstMs: 30_000, mostMs: 60 * 60 * 1000 }

export type DiscoveryTiming = {
  /** Time between two dials of discovered peers. */
  dialGapMs: number
  /** How often remembered peers are tried again while few are connected. */
  rejoinEveryMs: number
}

type DiscoveryDeps = {
  libp2p: Node
  logger: Logger
  connected(peerId: string): boolean
  /** Peers that this node met before, the last met first. They are dialed before all peers that others name. */
  reached(): Promise<PeerInfo[]>
  dial(peer: PeerAddresses, signal: AbortSignal): Promise<unknown>
}

/** Connects to discovered peers, a few at a time. They come from the local network, the DHT and earlier runs. */
export class Discovery {
  readonly #timing: DiscoveryTiming
  readonly #deps: DiscoveryDeps
  readonly #candidates = new Map<string, Multiaddr[]>()
  /** Candidates that were reached before. Peers known by hearsay are not dialed before them and do not replace them. */
  readonly #met = new Map<string, Multiaddr[]>()
  readonly #failed = new BoundedMap<string, { failures: number; againAt: number }>(FAILED_KEPT_MAX)
  #wake = () => {}
  #dialing = 0

  constructor(timing: DiscoveryTiming, deps: DiscoveryDeps) {
    this.#timing = timing
    this.#deps = deps
    deps.libp2p.addEventListener('peer:discovery', (event) => this.offer(event.detail))
  }

  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#wake(), { once: true })
    await Promise.all([this.#dialCandidates(signal), this.#rejoin(signal)])
  }

  /** Queues a discovered peer for a dial, unless there is a reason against it. */
  offer(peer: PeerInfo): void {
    if (this.#candidates.size < CANDIDATES_MAX) this.#queue(peer, this.#candidates)
  }

  #queue({ id, multiaddrs }: PeerInfo, queue: Map<string, Multiaddr[]>): void {
    const peerId = id.toString()
    const { libp2p, connected } = this.#deps
    if (id.equals(libp2p.peerId) || connected(peerId) || this.#outbound() >= PEERS_WANTED) return
    if ((this.#failed.get(peerId)?.againAt ?? 0) > performance.now()) return
    const addresses = [...(queue.get(peerId) ?? []), ...multiaddrs]
    queue.set(peerId, addresses.slice(0, ADDRESSES_PER_CANDIDATE_MAX))
    this.#wake()
  }

  /** Takes the next candidate from the queue, peers met before first. */
  #next(): [string, Multiaddr[]] | undefined {
    const queue = this.#met.size > 0 ? this.#met : this.#candidates
    const next = queue.entries().next().value
    if (next !== undefined) queue.delete(next[0])
    return next
  }

  async #dialCandidates(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = this.#dialing < DIALS_AT_ONCE_MAX ? this.#next() : undefined
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        continue
      }
      const [peerId, addresses] = next
      if (this.#deps.connected(peerId)) continue
      void this.#dial({ peerId, addresses }, signal)
      await idle(this.#timing.dialGapMs, signal)
    }
  }

  async #dial(peer: PeerAddresses, signal: AbortSignal): Promise<void> {
    this.#dialing += 1
    try {
      await this.#deps.dial(peer, AbortSignal.any([signal, AbortSignal.timeout(DIAL_MS_MAX)]))
      this.#failed.delete(peer.peerId)
    } catch (error) {
      this.#deps.logger.debug({ peer_id: peer.peerId, err: error }, 'a discovered peer cannot be reached')
      this.#noteFailure(peer.peerId)
    } finally {
      this.#dialing -= 1
      this.#wake()
    }
  }

  #noteFailure(peerId: string): void {
    const failures = (this.#failed.get(peerId)?.failures ?? 0) + 1
    this.#failed.set(peerId, { failures, againAt: performance.now() + backoffMs(failures, AGAIN) })
  }

  /** Queues known peers at the start, and again while too few peers are connected. */
  async #rejoin(signal: AbortSignal): Promise<void> {
    do {
      if (this.#outbound() >= PEERS_FEW) continue
      for (const peer of await this.#deps.reached()) this.#queue(peer, this.#met)
      for (const peer of await this.#remembered()) this.offer(peer)
    } while (await idle(this.#timing.rejoinEveryMs, signal))
  }

  #outbound(): number {
    return this.#deps.libp2p.getConnections().filter(({ direction }) => direction === 'outbound').length
  }

  /** Remembered peers, the last reached first. */
  async #remembered(): Promise<PeerInfo[]> {
    try {
      const peers = await this.#deps.libp2p.peerStore.all({ filters: [({ addresses }) => addresses.length > 0] })
      const reachedAt = new Map(peers.map((peer) => [peer, timeIn(peer.metadata.get('last-dial-success'))]))
      return peers
        .toSorted((a, b) => reachedAt.get(b)! - reachedAt.get(a)!)
        .slice(0, REMEMBERED_TRIED_MAX)
        .map(({ id, addresses }) => ({ id, multiaddrs: addresses.map(({ multiaddr }) => multiaddr) }))
    } catch (error) {
      this.#deps.logger.warn({ err: error }, 'the peers of earlier runs cannot be read')
      return []
    }
  }
}

/** Reads a time, which libp2p stores as decimal text. */
function timeIn(bytes: Uint8Array | undefined): number {
  return Number(new TextDecoder().decode(bytes)) || 0
}
