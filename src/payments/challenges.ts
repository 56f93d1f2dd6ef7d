import { BoundedMap } from '../lib/bounded-map.ts'
import type { UnixMs } from '../lib/clock.ts'
import { Hold } from '../lib/hold.ts'
import type { Hex } from '../schema/primitives.ts'
import type { X402ErrorName } from '../schema/x402.ts'
import type { ChallengeSeal, ChallengeTerms } from './challenge-seal.ts'

/** Lifetime of a challenge (D26). @internal Exported for its test. */
export const CHALLENGE_TTL_MS = 300_000
/** Consumed nonces kept in memory until the store has them. More than the payments that can wait for a run. */
const CONSUMED_MAX = 1_024

export type Challenge = ChallengeTerms & { nonce: Hex; expiresAt: UnixMs }

type AskedChallenge = Omit<Challenge, 'resource' | 'expiresAt'>
/** `isFromElsewhere`: another process of this seller issued it, or this one before its start. */
type FoundChallenge = { challenge: Challenge; isFromElsewhere?: true } | { error: X402ErrorName }

type ChallengesDeps = {
  seal: ChallengeSeal
  /** The agents that are sold here. A payment names a challenge, and no agent. */
  offered(): Iterable<string>
}

/**
 * The challenges that this process has issued and no payment has consumed (D26). Those that other processes of this
 * seller have issued are known by their seal (ADR-31).
 *
 * Beyond a maximum per peer and in total the oldest is dropped: its payer hears "expired" and can ask for a new one.
 * The nonce of a consumed challenge is remembered here until the store holds the payment, which keeps it for good.
 */
export class Challenges {
  readonly #deps: ChallengesDeps
  readonly #issued: Shelf
  readonly #consumed = new BoundedMap<string, true>(CONSUMED_MAX)

  constructor(deps: ChallengesDeps, options: { countMax?: number; perPeerMax?: number } = {}) {
    this.#deps = deps
    this.#issued = new Shelf({ countMax: options.countMax ?? 10_000, perPeerMax: options.perPeerMax ?? 64 })
  }

  get size(): number {
    return this.#issued.size
  }

  issue(terms: ChallengeTerms, now: UnixMs): Challenge {
    const expiresAt = now + CHALLENGE_TTL_MS
    const issued = { ...terms, expiresAt, nonce: this.#deps.seal.seal(terms, expiresAt) }
    this.#issued.put(issued)
    this.#forgetExpired(now)
    return issued
  }

  /** Finds the challenge that a payment names, without consuming it. The error says why no challenge fits. */
  find(asked: AskedChallenge, now: UnixMs): FoundChallenge {
    const nonce = asked.nonce.toLowerCase() as Hex
    if (this.#consumed.has(nonce)) return { error: 'PAYMENT_NONCE_USED' }
    const isAsked = (found: Challenge | undefined) =>
      found?.correlationId === asked.correlationId && found.peerId === asked.peerId
    const challenge = this.#issued.get(nonce)
    if (challenge !== undefined && isAsked(challenge)) {
      return now < challenge.expiresAt ? { challenge } : { error: 'PAYMENT_NONCE_EXPIRED' }
    }
    return this.#opened({ ...asked, nonce }, now)
  }

  /** What the seal says of a nonce that is not kept here. */
  #opened({ nonce, correlationId, peerId }: AskedChallenge, now: UnixMs): FoundChallenge {
    for (const resource of this.#deps.offered()) {
      const terms = { correlationId, peerId, resource }
      const opened = this.#deps.seal.open(nonce, terms)
      if (opened === undefined) continue
      // One of this process has given way to newer ones.
      const { expiresAt, isOwn } = opened
      if (isOwn || now >= expiresAt) return { error: 'PAYMENT_NONCE_EXPIRED' }
      return { challenge: { ...terms, nonce, expiresAt }, isFromElsewhere: true }
    }
    return { error: 'PAYMENT_NONCE_MISMATCH' }
  }

  /** Consumes the challenge of a payment that passed every check. Without a claim, the end of the hold restores it. */
  consume(challenge: Challenge): Hold {
    this.#issued.remove(challenge.nonce)
    this.#consumed.set(challenge.nonce, true)
    return new Hold(() => this.#restore(challenge))
  }

  #restore(challenge: Challenge): void {
    this.#consumed.delete(challenge.nonce)
    this.#issued.put(challenge)
  }

  /** The seal tells their payers later that they have expired. */
  #forgetExpired(now: UnixMs): void {
    for (const { nonce, expiresAt } of this.#issued.oldestFirst()) {
      if (expiresAt > now) break
      this.#issued.remove(nonce)
    }
  }
}

/** Challenges by nonce. Not a BoundedMap: it has a maximum per peer too. */
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

  put(challenge: Challenge): void {
    const { nonce, peerId } = challenge
    this.#byNonce.set(nonce, challenge)
    const own = this.#byPeer.get(peerId) ?? new Set()
    this.#byPeer.set(peerId, own.add(nonce))
    if (own.size > this.#limits.perPeerMax) this.remove(own.values().next().value!)
    if (this.#byNonce.size > this.#limits.countMax) this.remove(this.#byNonce.keys().next().value!)
  }

  remove(nonce: string): void {
    const challenge = this.#byNonce.get(nonce)
    if (challenge === undefined) return
    this.#byNonce.delete(nonce)
    const own = this.#byPeer.get(challenge.peerId)
    own?.delete(nonce)
    if (own?.size === 0) this.#byPeer.delete(challenge.peerId)
  }
}
