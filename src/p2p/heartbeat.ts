import type { Connection, PeerId } from '@libp2p/interface'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { idle } from '../lib/wait.ts'
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
/**
 * libp2p dates an address when it first learns it and forgets the address a day later, even if it is confirmed often.
 */
const RENEW_EVERY_MS = 60 * 60 * 1000

export type HeartbeatOptions = {
  /** Time between two pings of one connection. */
  pingEveryMs: number
  pingTimeoutMs: number
  /** How often to check which connections are due. */
  lookEveryMs: number
  /** How often `beat` is called. */
  beatEveryMs: number
}

export type HeartbeatDeps = {
  libp2p: Node
  logger: Logger
  noteLatency(peerId: PeerId, latencyMs: number): void
  beat(): void
  /**
   * When this node's own addresses last changed, by `performance.now()`. Its older connections may be dead since then.
   */
  movedAt(): number
}

/**
 * Watches all connections. It measures latency and closes connections that died silently, because a peer that lost its
 * network sends no close. It also keeps the addresses of connected peers from being forgotten.
 *
 * Runs until the signal aborts.
 */
export async function runHeartbeat(options: HeartbeatOptions, deps: HeartbeatDeps, signal: AbortSignal): Promise<void> {
  /** By connection id. */
  const pings = new Map<string, { at: number; dueAt: number; lost: number; doubted: boolean }>()
  /** By peer id. */
  const renewals = new Map<string, number>()
  /**
   * By peer id: when the peer opened a further connection. A peer that moved reconnects while its old connection still
   * looks alive.
   */
  const renewed = new Map<string, number>()
  let nextBeatAt = 0
  const onOpen = ({ detail: { remotePeer } }: CustomEvent<Connection>) => {
    if (deps.libp2p.getConnections(remotePeer).length > 1) renewed.set(remotePeer.toString(), performance.now())
  }
  deps.libp2p.addEventListener('connection:open', onOpen)
  signal.addEventListener('abort', () => deps.libp2p.removeEventListener('connection:open', onOpen), { once: true })

  while (await idle(options.lookEveryMs, signal)) {
    const connections = deps.libp2p.getConnections()
    forgetAllBut(new Set(connections.map(({ id }) => id)), pings)
    const peers = new Map(connections.map(({ remotePeer }) => [remotePeer.toString(), remotePeer]))
    forgetAllBut(new Set(peers.keys()), renewals)
    forgetAllBut(new Set(peers.keys()), renewed)

    const doubtedAt = ({ remotePeer }: Connection) => Math.max(deps.movedAt(), renewed.get(remotePeer.toString()) ?? 0)
    for (const { id } of connections) {
      if (!pings.has(id)) pings.set(id, { at: UNSEEN, dueAt: performance.now(), lost: 0, doubted: false })
    }
    const due = connections
      .filter((connection) => {
        const { at, dueAt } = pings.get(connection.id)!
        return connection.status === 'open' && (dueAt <= performance.now() || at < doubtedAt(connection))
      })
      // Connections that never answer are soon due again. Sort by due time, so that the others get their turn.
      .sort((a, b) => pings.get(a.id)!.dueAt - pings.get(b.id)!.dueAt)
    await Promise.all(due.slice(0, PINGS_AT_ONCE_MAX).map((connection) => look(connection, doubtedAt(connection))))
    if (signal.aborted) return

    for (const peer of peers.values()) {
      const renewAt = renewals.get(peer.toString())
      if (renewAt !== undefined && renewAt <= performance.now()) await renewAddresses(deps.libp2p, peer)
      if (renewAt === undefined || renewAt <= performance.now()) {
        renewals.set(peer.toString(), performance.now() + RENEW_EVERY_MS)
      }
    }

    if (nextBeatAt <= performance.now()) {
      nextBeatAt = performance.now() + options.beatEveryMs
      deps.beat()
    }
  }

  /** Pings once, and closes a connection that was silent for too long. */
  async function look(connection: Connection, doubtedAt: number): Promise<void> {
    const { at, lost: lostBefore, doubted: before } = pings.get(connection.id)!
    const doubted = at < doubtedAt || (before && lostBefore > 0)
    const timeoutMs = doubted ? Math.min(DOUBTED.timeoutMs, options.pingTimeoutMs) : options.pingTimeoutMs
    const sentAt = performance.now()
    const answered = await answers(connection, deps, AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]))
    if (signal.aborted) return
    const lost = answered ? 0 : lostBefore + 1
    const waitMs = answered ? options.pingEveryMs : Math.min(doubted ? DOUBTED.againMs : AGAIN_MS, options.pingEveryMs)
    pings.set(connection.id, { at: sentAt, dueAt: performance.now() + waitMs, lost, doubted })
    if (lost < (doubted ? DOUBTED.lostMax : PINGS_LOST_MAX)) return
    // If only a further connection caused the doubt, ping that one. If it does not answer either, the peer is slow.
    // Keep this connection, because it carries calls.
    if (doubted && doubtedAt > deps.movedAt() && !(await answersElsewhere(connection, timeoutMs))) {
      const dueAt = performance.now() + Math.min(AGAIN_MS, options.pingEveryMs)
      pings.set(connection.id, { at: performance.now(), dueAt, lost: 1, doubted: false })
      return
    }
    if (signal.aborted) return
    deps.logger.info({ peerId: connection.remotePeer.toString() }, 'closing a connection that no longer answers')
    connection.abort(new Error(`${lost} pings in a row went unanswered`))
  }

  /** True if the peer answers over its newest other connection. */
  async function answersElsewhere(connection: Connection, timeoutMs: number): Promise<boolean> {
    const all = deps.libp2p.getConnections(connection.remotePeer)
    const other = all.findLast(({ id, status }) => id !== connection.id && status === 'open')
    return (
      other !== undefined && (await answers(other, deps, AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])))
    )
  }
}

/**
 * Renews the dates of a connected peer's addresses. libp2p renews them only if they are removed first: see
 * `RENEW_EVERY_MS`.
 */
export async function renewAddresses({ peerStore }: Node, peer: PeerId): Promise<void> {
  try {
    const { addresses } = await peerStore.get(peer)
    if (addresses.length === 0) return
    await peerStore.patch(peer, { addresses: [] })
    await peerStore.patch(peer, { addresses })
  } catch {
    // The peer was forgotten in the meantime.
  }
}

/** True if the peer at the other end is alive. */
async function answers(connection: Connection, deps: HeartbeatDeps, signal: AbortSignal): Promise<boolean> {
  try {
    deps.noteLatency(connection.remotePeer, await ping(connection, signal))
    return true
  } catch (error) {
    // A refusal is an answer too. While the DHT pings the same peer, no stream is left for another ping.
    if (NO_LOSS.includes((error as Error).name)) return true
    deps.logger.debug({ peerId: connection.remotePeer.toString(), reason: reasonOf(error) }, 'a ping was not answered')
    return false
  }
}

function forgetAllBut(present: ReadonlySet<string>, states: Map<string, unknown>): void {
  for (const id of states.keys()) if (!present.has(id)) states.delete(id)
}
