import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'

export type CatchUpOptions = {
  /** Exchanges at once; further peers wait in line. */
  concurrentMax?: number
  /** Peers attended to at once; those beyond are met by the regular rounds. */
  peersMax?: number
  /** Tries per new connection, with waits of `retryMs` · 1, 2, 4 … between them. */
  triesMax?: number
  retryMs?: number
  /** A second look at a new peer, for what it learnt while gossip between us was not yet set up. */
  followUpMs?: number
  /** How often one peer, chosen at random, is met for what gossip may have lost. */
  roundMs?: number
  meetTimeoutMs?: number
}

/**
 * How a session ended: `equal` (the peer had nothing to send), `news`, `idle` (it sent, nothing was news), `foreign` (does
 * not speak the protocol), `hostile` (sends what it must not). A peer that does not answer for now is an exception.
 */
export type SyncOutcome = 'equal' | 'news' | 'idle' | 'foreign' | 'hostile'

export type CatchUpDeps = {
  connectedPeers(): string[]
  meet(peerId: string, signal: AbortSignal): Promise<SyncOutcome>
  logger: Logger
}

/** A peer that was just met may not have its handlers yet, so a foreign one is asked a second time. */
const FOREIGN_TRIES = 2

/** A peer from which nothing new came is left out of 1, 2, 4 … rounds, a hostile one of this many. */
const ROUNDS_LEFT_OUT_MAX = 64

/** Decides when which peer is met, for both to become equal. Knows nothing of how. */
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
      meetTimeoutMs: 120_000,
      ...options,
    }
  }

  start(): void {
    this.#rounds ??= this.#unlessStopping(this.#makeRounds())
    for (const peerId of this.#deps.connectedPeers()) this.attend(peerId)
  }

  /** Ends all exchanges and waits for their end. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the replica is stopping'))
    await Promise.allSettled([...this.#attended.values(), this.#rounds])
  }

  /** Catches up with a newly connected peer. One that comes and goes is attended to once at a time. */
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
      await this.#wait(retryMs * 2 ** (tried - 1))
      if (!this.#isConnected(peerId)) return
    }
    await this.#wait(followUpMs)
    if (this.#isConnected(peerId)) await this.#tryToMeet(peerId)
  }

  async #makeRounds(): Promise<void> {
    for (let round = 1; ; round++) {
      await this.#wait(this.#options.roundMs)
      const connected = this.#deps.connectedPeers()
      for (const peerId of this.#leftOut.keys()) if (!connected.includes(peerId)) this.#leftOut.delete(peerId)
      const peers = connected.filter((id) => !this.#attended.has(id) && (this.#leftOut.get(id)?.until ?? 0) <= round)
      if (peers.length === 0) continue
      const peerId = peers[randomInt(peers.length)]!
      this.#leaveOut(peerId, await this.#tryToMeet(peerId), round)
    }
  }

  /** Replicas that are full, or whose clocks differ, may never be equal: they must not resend all they have for ever. */
  #leaveOut(peerId: string, outcome: SyncOutcome | undefined, round: number): void {
    if (outcome === 'news' || outcome === 'equal') {
      this.#leftOut.delete(peerId)
      return
    }
    const before = this.#leftOut.get(peerId)?.rounds ?? 1
    const rounds = outcome === 'hostile' ? ROUNDS_LEFT_OUT_MAX : Math.min(before * 2, ROUNDS_LEFT_OUT_MAX)
    this.#leftOut.set(peerId, { rounds, until: round + rounds })
  }

  /** The outcome, or undefined where the peer did not answer. */
  async #tryToMeet(peerId: string): Promise<SyncOutcome | undefined> {
    const { logger, meet } = this.#deps
    await this.#turn()
    try {
      this.#stopping.signal.throwIfAborted()
      const limit = AbortSignal.timeout(this.#options.meetTimeoutMs)
      return await meet(peerId, AbortSignal.any([this.#stopping.signal, limit]))
    } catch (error) {
      logger.debug({ peer: peerId, reason: reasonOf(error) }, 'no session with a peer came about')
      return undefined
    } finally {
      const next = this.#line.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }

  /** Waits for one of the places. The line is bounded by the peers attended to. */
  async #turn(): Promise<void> {
    if (this.#running < this.#options.concurrentMax) this.#running++
    // Who leaves hands over its place.
    else await new Promise<void>((resolve) => this.#line.push(resolve))
  }

  #isConnected(peerId: string): boolean {
    return this.#deps.connectedPeers().includes(peerId)
  }

  /** A wait of 80 to 120 % of the time, so that nodes do not act in step. */
  #wait(ms: number): Promise<void> {
    return delay((ms * randomInt(80, 121)) / 100, undefined, { signal: this.#stopping.signal, ref: false })
  }

  async #unlessStopping(work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#deps.logger.error({ reason: reasonOf(error) }, 'catch-up failed')
    }
  }
}
