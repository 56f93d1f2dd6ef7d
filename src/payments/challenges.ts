import { BoundedMap } from '../lib/bounded-map.ts'
import type { UnixMs } from '../lib/clock.ts'
import { Hold } from '../lib/hold.ts'
import type { Hex } from '../schema/primitives.ts'
import type { X402ErrorName } from '../schema/x402.ts'

/** Lifetime of a challenge (D26). @internal Exported for its test. */
export const CHALLENGE_TTL_MS = 300_000
/** Consumed nonces kept in memory until the store has them. More than the payments that can wait for a run. */
const CONSUMED_MAX = 1_024

export type Challenge = {
  nonce: Hex
  correlationId: string
  resource: string
  peerId: string
  expiresAt: UnixMs
}

/** Dropped challenges kept per peer, so that their payers still hear "expired". More than a peer asks for at once. */
const FORGOTTEN_PER_PEER_MAX = 256
const FORGOTTEN_MAX = 10_000

/**
 * The challenges that the seller has issued and no payment has consumed (D26).
 *
 * Beyond a maximum per peer and in total the oldest is dropped: its payer hears "expired" and can ask for a new one.
 * The nonce of a consumed challenge is remembered here until the store holds the payment, which keeps it for good.
 */
export class Challenges {
  readonly #issued: Shelf
  readonly #forgotten = new Shelf({ countMax: FORGOTTEN_MAX, perPeerMax: FORGOTTEN_PER_PEER_MAX })
  readonly #consumed = new BoundedMap<string, true>(CONSUMED_MAX)

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

  /** Finds the challenge that a payment names, without consuming it. The error says why no challenge fits. */
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

  /** Consumes the challenge of a payment that passed every check. Without a claim, the end of the hold restores it. */
  consume(challenge: Challenge): Hold {
    this.#issued.remove(challenge.nonce)
    this.#consumed.set(challenge.nonce, true)
    return new Hold(() => this.#restore(challenge))
  }

  #restore(challenge: Challenge): void {
    this.#consumed.delete(challenge.nonce)
    for (const evicted of this.#issued.put(challenge)) this.#forgotten.put(evicted)
  }

  /** Removes challenges one lifetime after they expired. Until then the payer hears "expired" and not "unknown". */
  #forgetExpired(now: UnixMs): void {
    for (const shelf of [this.#issued, this.#forgotten]) {
      for (const challenge of shelf.oldestFirst()) {
        if (challenge.expiresAt + CHALLENGE_TTL_MS > now) break
        shelf.remove(challenge.nonce)
      }
    }
  }
}

/** Challenges by nonce. Not a BoundedMap: it has a maximum per peer too, and its caller remembers what was dropped. */
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

  /** @returns the challenges that were dropped */
  put(challenge: Challenge): Challenge[] {
    const { nonce, peerId } = challenge
    this.#byNonce.set(nonce, challenge)
    const own = this.#byPeer.get(peerId) ?? new Set()
    this.#byPeer.set(peerId, own.add(nonce))
    const evicted: Challenge[] = []
    if (own.size > this.#limits.perPeerMax) evicted.push(...this.remove(own.values().next().value!))
    if (this.#byNonce.size > this.#limits.countMax) evicted.push(...this.remove(this.#byNonce.keys().next().value!))
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
