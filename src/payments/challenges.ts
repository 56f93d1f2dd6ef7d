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

/** Forgotten challenges whose payers still hear that they have expired. More than a peer asks for at once. */
const FORGOTTEN_PER_PEER_MAX = 256
const FORGOTTEN_MAX = 10_000

/**
 * The challenges a seller has issued and that no payment has consumed (D26).
 *
 * Bounded: the oldest give way, a peer's own before those of others. The payer of one that gave way hears that it has
 * expired, which says that another one may be asked for. A consumed one leaves this map: the payments on disk know its
 * nonce for ever, and until they do it is remembered here.
 */
export class Challenges {
  readonly #issued: Shelf
  readonly #forgotten = new Shelf({ countMax: FORGOTTEN_MAX, perPeerMax: FORGOTTEN_PER_PEER_MAX })
  readonly #consumed = new Set<string>()

  constructor(options: { countMax?: number; perPeerMax?: number } = {}) {
    this.#issued = new Shelf({ countMax: options.countMax ?? 10_000, perPeerMax: options.perPeerMax ?? 64 })
  }

  get size(): number {
    return this.#issued.size
  }

  issue(challenge: Omit<Challenge, 'expiresAt'>, now: UnixMs): Challenge {
    const issued = { ...challenge, expiresAt: now + CHALLENGE_TTL_MS }
    for (const evicted of this.#issued.put(issued)) this.#forgotten.put(evicted)
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
    const isAsked = (found: Challenge | undefined) =>
      found?.correlationId === asked.correlationId && found.peerId === asked.peerId
    const challenge = this.#issued.get(nonce)
    if (challenge !== undefined && isAsked(challenge)) {
      return now < challenge.expiresAt ? { challenge } : { error: 'PAYMENT_NONCE_EXPIRED' }
    }
    const isForgotten = isAsked(this.#forgotten.get(nonce))
    return { error: isForgotten ? 'PAYMENT_NONCE_EXPIRED' : 'PAYMENT_NONCE_MISMATCH' }
  }

  /** Consumes a challenge: for a payment that has passed every check, and only then. */
  consume(challenge: Challenge): void {
    this.#issued.remove(challenge.nonce)
    this.#consumed.add(challenge.nonce)
    if (this.#consumed.size > CONSUMED_MAX) this.#consumed.delete(first(this.#consumed))
  }

  /** Puts a challenge back whose payment was refused after all. */
  restore(challenge: Challenge): void {
    this.#consumed.delete(challenge.nonce)
    for (const evicted of this.#issued.put(challenge)) this.#forgotten.put(evicted)
  }

  /** An expired one is kept for another lifetime, so that its payer hears "expired" and not "unknown". */
  #forgetExpired(now: UnixMs): void {
    for (const shelf of [this.#issued, this.#forgotten]) {
      for (const challenge of shelf.oldestFirst()) {
        if (challenge.expiresAt + CHALLENGE_TTL_MS > now) break
        shelf.remove(challenge.nonce)
      }
    }
  }
}

/** Challenges by nonce, so many in all and of a peer; beyond it the oldest leave. */
class Shelf {
  readonly #byNonce = new Map<string, Challenge>()
  readonly #byPeer = new Map<string, Set<string>>()
  readonly #limits: { countMax: number; perPeerMax: number }

  constructor(limits: { countMax: number; perPeerMax: number }) {
    this.#limits = limits
  }

  get size(): number {
    return this.#byNonce.size
  }

  get(nonce: string): Challenge | undefined {
    return this.#byNonce.get(nonce)
  }

  oldestFirst(): Iterable<Challenge> {
    return this.#byNonce.values()
  }

  /** @returns those that had to leave */
  put(challenge: Challenge): Challenge[] {
    const { nonce, peerId } = challenge
    this.#byNonce.set(nonce, challenge)
    const own = this.#byPeer.get(peerId) ?? new Set()
    this.#byPeer.set(peerId, own.add(nonce))
    const evicted: Challenge[] = []
    if (own.size > this.#limits.perPeerMax) evicted.push(...this.remove(first(own)))
    if (this.#byNonce.size > this.#limits.countMax) evicted.push(...this.remove(first(this.#byNonce.keys())))
    return evicted
  }

  remove(nonce: string): Challenge[] {
    const challenge = this.#byNonce.get(nonce)
    if (challenge === undefined) return []
    this.#byNonce.delete(nonce)
    const own = this.#byPeer.get(challenge.peerId)
    own?.delete(nonce)
    if (own?.size === 0) this.#byPeer.delete(challenge.peerId)
    return [challenge]
  }
}

function first(nonces: Iterable<string>): string {
  for (const nonce of nonces) return nonce
  throw new Error('nothing to evict')
}
