import type { UnixMs } from './clock.ts'

export type TokenBucketsOptions = {
  /** What a key may spend at once. */
  burst: number
  /** What it earns back. */
  perSecond: number
  /** Keys remembered; beyond it the longest unused is forgotten, which fills its bucket again. */
  keysMax: number
}

type Bucket = { tokens: number; at: UnixMs }

/** Rate limits per key (a peer, a seller), bounded in memory. Time is an argument. */
export class TokenBuckets {
  readonly #options: TokenBucketsOptions
  readonly #buckets = new Map<string, Bucket>()

  constructor(options: TokenBucketsOptions) {
    this.#options = options
  }

  /** Whether `key` could spend `count` now. */
  has(key: string, count: number, now: UnixMs): boolean {
    return this.#tokens(key, now) >= count
  }

  /** Spends `count` if `key` has as many; otherwise spends nothing and answers false. */
  take(key: string, count: number, now: UnixMs): boolean {
    const tokens = this.#tokens(key, now)
    if (tokens < count) return false
    this.#set(key, { tokens: tokens - count, at: now })
    return true
  }

  /** Gives back `count` that was spent for nothing. */
  give(key: string, count: number, now: UnixMs): void {
    this.#set(key, { tokens: Math.min(this.#options.burst, this.#tokens(key, now) + count), at: now })
  }

  /** Takes all `key` has. */
  drain(key: string, now: UnixMs): void {
    this.#set(key, { tokens: 0, at: now })
  }

  #tokens(key: string, now: UnixMs): number {
    const { burst, perSecond } = this.#options
    const bucket = this.#buckets.get(key)
    if (bucket === undefined) return burst
    // A clock that was set back earns nothing, and must not cost anything either: from here on it earns again.
    if (now < bucket.at) bucket.at = now
    const earned = ((now - bucket.at) / 1000) * perSecond
    return Math.min(burst, bucket.tokens + earned)
  }

  #set(key: string, bucket: Bucket): void {
    this.#buckets.delete(key)
    this.#buckets.set(key, bucket)
    if (this.#buckets.size > this.#options.keysMax) this.#buckets.delete(this.#buckets.keys().next().value!)
  }
}
