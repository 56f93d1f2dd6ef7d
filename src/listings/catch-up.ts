import { randomInt } from 'node:crypto'
import type { Logger } from '../lib/logger.ts'
import { doubledMs } from '../lib/retry.ts'
import { idle } from '../lib/wait.ts'
import type { Host } from '../p2p/host.ts'
import type { SyncOutcome, SyncSessions } from './sync-sessions.ts'

export type CatchUpOptions = {
  /** Sessions at once. More peers wait in a queue. */
  concurrentMax?: number
  /** Newly connected peers attended to at once. More peers are met by the regular rounds. */
  peersMax?: number
  /** Attempts per new connection. The waits between them are `retryMs` × 1, 2, 4 … */
  triesMax?: number
  retryMs?: number
  /**
   * Wait before a second session with a new peer. It fetches what the peer learned before gossip between both was set
   * up.
   */
  followUpMs?: number
  /** Interval of the rounds. Each round meets one random peer to fetch what gossip lost. */
  roundMs?: number
}

type CatchUpDeps = {
  host: Pick<Host, 'peers'>
  sessions: Pick<SyncSessions, 'meet'>
  logger: Logger
}

/** The longest session, with its wait for a connection, in ms. */
const MEET_TIMEOUT_MS = 120_000
/** A peer that just connected may not have its handlers yet. A foreign peer is therefore asked a second time. */
const FOREIGN_TRIES = 2

/**
 * The most rounds that a peer is skipped. The number of rounds doubles each time the peer brings nothing new. A hostile
 * peer is skipped for this many at once.
 */
const ROUNDS_LEFT_OUT_MAX = 64

/** Decides when to meet which peer, so that both replicas become equal. It does not know how a session works. */
export class CatchUp {
  readonly #deps: CatchUpDeps
  readonly #options: Required<CatchUpOptions>
  readonly #stopping = new AbortController()
  readonly #attended = new Map<string, Promise<void>>()
  readonly #leftOut = new Map<string, { rounds: number; until: number }>()
  readonly #line: (() => void)[] = []
  #running = 0
  #rounds: Promise<void> | undefined

  constructor(options: CatchUpOptions, deps: CatchUpDeps) {
    this.#deps = deps
    this.#options = {
      concurrentMax: 4,
      peersMax: 256,
      triesMax: 6,
      retryMs: 1000,
      followUpMs: 5000,
      roundMs: 60_000,
      ...options,
    }
  }

  start(): void {
    this.#rounds ??= this.#unlessStopping(this.#makeRounds())
    for (const peerId of this.#connectedPeers()) this.attend(peerId)
  }

  /** Aborts all sessions and waits until they end. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the replica is stopping'))
    await Promise.allSettled([...this.#attended.values(), this.#rounds])
  }

  /** Catches up with a newly connected peer. A peer that reconnects often is still attended to only once at a time. */
  attend(peerId: string): void {
    if (this.#stopping.signal.aborted || this.#attended.has(peerId)) return
    if (this.#attended.size >= this.#options.peersMax) return
    const attended = this.#unlessStopping(this.#attendTo(peerId)).finally(() => this.#attended.delete(peerId))
    this.#attended.set(peerId, attended)
  }

  async #attendTo(peerId: string): Promise<void> {
    const { triesMax, retryMs, followUpMs } = this.#options
    for (let tried = 1; ; tried++) {
      const outcome = await this.#tryToMeet(peerId)
      if (outcome === 'hostile') return
      if (outcome !== undefined && outcome !== 'foreign') break
      if (tried >= (outcome === 'foreign' ? Math.min(FOREIGN_TRIES, triesMax) : triesMax)) return
      await this.#wait(doubledMs(tried, { firstMs: retryMs, mostMs: Number.POSITIVE_INFINITY }))
      if (!this.#isConnected(peerId)) return
    }
    await this.#wait(followUpMs)
    if (this.#isConnected(peerId)) await this.#tryToMeet(peerId)
  }

  async #makeRounds(): Promise<void> {
    for (let round = 1; ; round++) {
      await this.#wait(this.#options.roundMs)
      const connected = this.#connectedPeers()
      for (const peerId of this.#leftOut.keys()) if (!connected.includes(peerId)) this.#leftOut.delete(peerId)
      const peers = connected.filter((id) => !this.#attended.has(id) && (this.#leftOut.get(id)?.until ?? 0) <= round)
      if (peers.length === 0) continue
      const peerId = peers[randomInt(peers.length)]!
      this.#leaveOut(peerId, await this.#tryToMeet(peerId), round)
    }
  }

  /**
   * Skips a peer that brings nothing new. Full replicas and replicas with different clocks may never become equal. They
   * must not resend everything forever.
   */
  #leaveOut(peerId: string, outcome: SyncOutcome | undefined, round: number): void {
    if (outcome === 'news' || outcome === 'equal') {
      this.#leftOut.delete(peerId)
      return
    }
    const before = this.#leftOut.get(peerId)?.rounds ?? 1
    const rounds = outcome === 'hostile' ? ROUNDS_LEFT_OUT_MAX : Math.min(before * 2, ROUNDS_LEFT_OUT_MAX)
    this.#leftOut.set(peerId, { rounds, until: round + rounds })
  }

  /** Returns undefined if the peer did not answer. */
  async #tryToMeet(peerId: string): Promise<SyncOutcome | undefined> {
    const { logger, sessions } = this.#deps
    await this.#turn()
    try {
      this.#stopping.signal.throwIfAborted()
      const limit = AbortSignal.timeout(MEET_TIMEOUT_MS)
      return await sessions.meet(peerId, AbortSignal.any([this.#stopping.signal, limit]))
    } catch (error) {
      logger.debug({ peer_id: peerId, err: error }, 'no session with a peer came about')
      return undefined
    } finally {
      const next = this.#line.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }

  /** Waits until another session may start. `peersMax` bounds the queue. */
  async #turn(): Promise<void> {
    if (this.#running < this.#options.concurrentMax) this.#running++
    // A session that ends lets the next in the queue start.
    else await new Promise<void>((resolve) => this.#line.push(resolve))
  }

  /** Peers connected without a relay. */
  #connectedPeers(): string[] {
    return [...new Set(this.#deps.host.peers().flatMap(({ peerId, relayed }) => (relayed ? [] : peerId)))]
  }

  #isConnected(peerId: string): boolean {
    return this.#connectedPeers().includes(peerId)
  }

  /** Waits 80 to 120 % of the time, so that nodes do not act in step. */
  async #wait(ms: number): Promise<void> {
    await idle((ms * randomInt(80, 121)) / 100, this.#stopping.signal)
    this.#stopping.signal.throwIfAborted()
  }

  async #unlessStopping(work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#deps.logger.error({ err: error }, 'catch-up failed')
    }
  }
}
