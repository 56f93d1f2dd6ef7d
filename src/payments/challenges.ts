import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import type { X402ErrorName } from '../schema/x402.ts'

/** How long a challenge lives (D26). */
export const CHALLENGE_TTL_MS = 300_000
/** More than can wait for their turn to run: a consumed nonce is on disk long before it is forgotten here. */
const CONSUMED_MAX = 1_024

export type Challenge = {
  nonce: Hex
  correlationId: string
  resource: string
  peerId: string
  expiresAt: UnixMs
}

/**
 * The challenges a seller has issued and that no payment has consumed (D26).
 *
 * Bounded: the oldest give way, a peer's own before those of others; whoever held one is told of a mismatch and asks
 * again. A consumed one leaves this map: the payments on disk know its nonce for ever, and until they do it is
 * remembered here.
 */
export class Challenges {
  readonly #byNonce = new Map<string, Challenge>()
  readonly #byPeer = new Map<string, Set<string>>()
  readonly #consumed = new Set<string>()
  readonly #countMax: number
  readonly #perPeerMax: number

  constructor(options: { countMax?: number; perPeerMax?: number } = {}) {
    this.#countMax = options.countMax ?? 10_000
    this.#perPeerMax = options.perPeerMax ?? 64
  }

  get size(): number {
    return this.#byNonce.size
  }

  issue(challenge: Omit<Challenge, 'expiresAt'>, now: UnixMs): Challenge {
    const issued = { ...challenge, expiresAt: now + CHALLENGE_TTL_MS }
    this.restore(issued)
    const own = this.#byPeer.get(challenge.peerId)!
    if (own.size > this.#perPeerMax) this.#forget(first(own))
    if (this.#byNonce.size > this.#countMax) this.#forget(first(this.#byNonce.keys()))
    this.#forgetExpired(now)
    return issued
  }

  /** Finds what a payment names, without consuming it; the error says why it does not fit. */
  find(
    asked: Pick<Challenge, 'nonce' | 'correlationId' | 'peerId'>,
    now: UnixMs,
  ): { challenge: Challenge } | { error: X402ErrorName } {
    const nonce = asked.nonce.toLowerCase()
    if (this.#consumed.has(nonce)) return { error: 'PAYMENT_NONCE_USED' }
    const challenge = this.#byNonce.get(nonce)
    if (challenge?.correlationId !== asked.correlationId || challenge.peerId !== asked.peerId) {
      return { error: 'PAYMENT_NONCE_MISMATCH' }
    }
    if (now >= challenge.expiresAt) return { error: 'PAYMENT_NONCE_EXPIRED' }
    return { challenge }
  }

  /** Consumes a challenge: for a payment that has passed every check, and only then. */
  consume(challenge: Challenge): void {
    this.#forget(challenge.nonce)
    this.#consumed.add(challenge.nonce)
    if (this.#consumed.size > CONSUMED_MAX) this.#consumed.delete(first(this.#consumed))
  }

  /** Puts a challenge back whose payment was refused after all. */
  restore(challenge: Challenge): void {
    this.#consumed.delete(challenge.nonce)
    this.#byNonce.set(challenge.nonce, challenge)
    const own = this.#byPeer.get(challenge.peerId)
    if (own === undefined) this.#byPeer.set(challenge.peerId, new Set([challenge.nonce]))
    else own.add(challenge.nonce)
  }

  /** An expired one is kept for another lifetime, so that its payer hears "expired" and not "unknown". */
  #forgetExpired(now: UnixMs): void {
    for (const challenge of this.#byNonce.values()) {
      if (challenge.expiresAt + CHALLENGE_TTL_MS > now) return
      this.#forget(challenge.nonce)
    }
  }

  #forget(nonce: string): void {
    const challenge = this.#byNonce.get(nonce)
    if (challenge === undefined) return
    this.#byNonce.delete(nonce)
    const own = this.#byPeer.get(challenge.peerId)
    own?.delete(nonce)
    if (own?.size === 0) this.#byPeer.delete(challenge.peerId)
  }
}

function first(nonces: Iterable<string>): string {
  for (const nonce of nonces) return nonce
  throw new Error('nothing to evict')
}
