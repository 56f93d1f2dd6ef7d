import type { Connection, PeerId } from '@libp2p/interface'
import type { Logger } from '../lib/logger.ts'
import { idle } from '../lib/wait.ts'
import { AddressRenewal } from './libp2p-fixes/address-age.ts'
import type { Node } from './modules.ts'
import { ping } from './ping.ts'

const NO_LOSS = ['UnsupportedProtocolError', 'TooManyOutboundProtocolStreamsError']
/**
 * Pings in a row that a connection may leave unanswered. One lost ping only means a busy peer or a short loss of
 * signal.
 */
const PINGS_LOST_MAX = 3
/** Wait before a lost ping is repeated. */
const AGAIN_MS = 2000
/**
 * Limits for a doubted connection. It may be dead because this node moved or the peer opened a new connection after the
 * last ping.
 */
const DOUBTED = { timeoutMs: 2000, againMs: 100, lostMax: 2 }
const PINGS_AT_ONCE_MAX = 16
/** Ping time of a connection that was never pinged. No earlier event can put it in doubt. */
const UNSEEN = Number.POSITIVE_INFINITY
export type HeartbeatOptions = {
  /** Time between two pings of one connection. */
  pingEveryMs: number
  pingTimeoutMs: number
  /** How often to check which connections are due. */
  lookEveryMs: number
  /** How often `beat` is called. */
  beatEveryMs: number
}

type HeartbeatDeps = {
  libp2p: Node
  logger: Logger
  noteLatency(peerId: PeerId, latencyMs: number): void
  beat(): void
  /**
   * When this node's own addresses last changed, by `performance.now()`. Its older connections may be dead since then.
   */
  movedAt(): number
}

/** How a connection answers. `at`: its last ping. Without one, no earlier event can put the connection in doubt. */
type PingState = { at: number; dueAt: number; lost: number; doubted: boolean }

/**
 * Watches all connections. It measures latency and closes connections that died silently, because a peer that lost its
 * network sends no close. It also keeps the addresses of connected peers from being forgotten.
 *
 * Runs until the signal aborts.
 */
export async function runHeartbeat(options: HeartbeatOptions, deps: HeartbeatDeps, signal: AbortSignal): Promise<void> {
  const { libp2p } = deps
  const watch = new ConnectionWatch(options, deps, signal)
  const renewal = new AddressRenewal(libp2p)
  let nextBeatAt = 0
  while (await idle(options.lookEveryMs, signal)) {
    const connections = libp2p.getConnections()
    await watch.look(connections)
    if (signal.aborted) return
    await renewal.renewDue(connections.map(({ remotePeer }) => remotePeer))
    if (nextBeatAt > performance.now()) continue
    nextBeatAt = performance.now() + options.beatEveryMs
    deps.beat()
  }
}

/** Pings connections that are due or in doubt, and closes those that were silent for too long. */
class ConnectionWatch {
  readonly #options: HeartbeatOptions
  readonly #deps: HeartbeatDeps
  readonly #signal: AbortSignal
  /** By connection id. */
  readonly #pings = new Map<string, PingState>()
  /**
   * By peer id: when the peer opened a further connection. A peer that moved reconnects while its old connection still
   * looks alive.
   */
  readonly #renewed = new Map<string, number>()

  constructor(options: HeartbeatOptions, deps: HeartbeatDeps, signal: AbortSignal) {
    this.#options = options
    this.#deps = deps
    this.#signal = signal
    const { libp2p } = deps
    const onOpen = ({ detail: { remotePeer } }: CustomEvent<Connection>) => {
      if (libp2p.getConnections(remotePeer).length > 1) this.#renewed.set(remotePeer.toString(), performance.now())
    }
    libp2p.addEventListener('connection:open', onOpen)
    signal.addEventListener('abort', () => libp2p.removeEventListener('connection:open', onOpen), { once: true })
  }

  async look(connections: readonly Connection[]): Promise<void> {
    forgetAllBut(new Set(connections.map(({ id }) => id)), this.#pings)
    forgetAllBut(new Set(connections.map(({ remotePeer }) => remotePeer.toString())), this.#renewed)
    const now = performance.now()
    for (const { id } of connections) {
      if (!this.#pings.has(id)) this.#pings.set(id, { at: UNSEEN, dueAt: now, lost: 0, doubted: false })
    }
    const due = connections
      .filter((connection) => {
        const { at, dueAt } = this.#pings.get(connection.id)!
        return connection.status === 'open' && (dueAt <= now || at < this.#doubtedAt(connection))
      })
      // Connections that never answer are soon due again. Sort by due time, so that the others get their turn.
      .sort((a, b) => this.#pings.get(a.id)!.dueAt - this.#pings.get(b.id)!.dueAt)
    await Promise.all(due.slice(0, PINGS_AT_ONCE_MAX).map((connection) => this.#ping(connection)))
  }

  #doubtedAt({ remotePeer }: Connection): number {
    return Math.max(this.#deps.movedAt(), this.#renewed.get(remotePeer.toString()) ?? 0)
  }

  /** Pings once, and closes a connection that was silent for too long. */
  async #ping(connection: Connection): Promise<void> {
    const { pingEveryMs, pingTimeoutMs } = this.#options
    const doubtedAt = this.#doubtedAt(connection)
    const { at, lost: lostBefore, doubted: before } = this.#pings.get(connection.id)!
    const doubted = at < doubtedAt || (before && lostBefore > 0)
    const timeoutMs = doubted ? Math.min(DOUBTED.timeoutMs, pingTimeoutMs) : pingTimeoutMs
    const sentAt = performance.now()
    const answered = await this.#answers(connection, timeoutMs)
    if (this.#signal.aborted) return
    const lost = answered ? 0 : lostBefore + 1
    const waitMs = answered ? pingEveryMs : Math.min(doubted ? DOUBTED.againMs : AGAIN_MS, pingEveryMs)
    this.#pings.set(connection.id, { at: sentAt, dueAt: performance.now() + waitMs, lost, doubted })
    if (lost < (doubted ? DOUBTED.lostMax : PINGS_LOST_MAX)) return
    // If only a further connection caused the doubt, ping that one. If it does not answer either, the peer is slow.
    // Keep this connection, because it carries calls.
    if (doubted && doubtedAt > this.#deps.movedAt() && !(await this.#answersElsewhere(connection, timeoutMs))) {
      const dueAt = performance.now() + Math.min(AGAIN_MS, pingEveryMs)
      this.#pings.set(connection.id, { at: performance.now(), dueAt, lost: 1, doubted: false })
      return
    }
    if (this.#signal.aborted) return
    this.#deps.logger.info({ peer_id: connection.remotePeer.toString() }, 'closing a connection that no longer answers')
    connection.abort(new Error(`${lost} pings in a row went unanswered`))
  }

  /** True if the peer answers over its newest other connection. */
  async #answersElsewhere({ id: silent, remotePeer }: Connection, timeoutMs: number): Promise<boolean> {
    const all = this.#deps.libp2p.getConnections(remotePeer)
    const other = all.findLast(({ id, status }) => id !== silent && status === 'open')
    return other !== undefined && (await this.#answers(other, timeoutMs))
  }

  async #answers(connection: Connection, timeoutMs: number): Promise<boolean> {
    const { logger } = this.#deps
    const limit = AbortSignal.any([this.#signal, AbortSignal.timeout(timeoutMs)])
    try {
      this.#deps.noteLatency(connection.remotePeer, await ping(connection, limit))
      return true
    } catch (error) {
      // A refusal is an answer too. While the DHT pings the same peer, no stream is left for another ping.
      if (NO_LOSS.includes((error as Error).name)) return true
      logger.debug({ peer_id: connection.remotePeer.toString(), err: error }, 'a ping was not answered')
      return false
    }
  }
}

function forgetAllBut(present: ReadonlySet<string>, states: Map<string, unknown>): void {
  for (const id of states.keys()) if (!present.has(id)) states.delete(id)
}
