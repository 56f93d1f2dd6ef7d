// By hand: limiters from npm read their own clock. This one takes the time as an argument and bounds its keys.
import { BoundedMap } from './bounded-map.ts'
import type { UnixMs } from './clock.ts'

export type TokenBucketsOptions = {
  /** Tokens that a key may spend at once. */
  burst: number
  /** Tokens that a key earns per second. */
  perSecond: number
  /** Keys kept. Beyond it the least recently used key is dropped, and its bucket is full again. */
  keysMax: number
}

type Bucket = { tokens: number; at: UnixMs }

/** Rate limits per key (a peer, a seller), with bounded memory. The time is an argument. */
export class TokenBuckets {
  readonly #options: TokenBucketsOptions
  readonly #buckets: BoundedMap<string, Bucket>

  constructor(options: TokenBucketsOptions) {
    this.#options = options
    this.#buckets = new BoundedMap(options.keysMax)
  }

  /** Returns true if `key` could spend `count` now. */
  has(key: string, count: number, now: UnixMs): boolean {
    return this.#tokens(key, now) >= count
  }

  /** Spends `count` and returns true, or spends nothing and returns false if `key` has fewer. */
  take(key: string, count: number, now: UnixMs): boolean {
    const tokens = this.#tokens(key, now)
    if (tokens < count) return false
    this.#buckets.set(key, { tokens: tokens - count, at: now })
    return true
  }

  /** Returns `count` tokens that were spent in vain. */
  give(key: string, count: number, now: UnixMs): void {
    this.#buckets.set(key, { tokens: Math.min(this.#options.burst, this.#tokens(key, now) + count), at: now })
  }

  drain(key: string, now: UnixMs): void {
    this.#buckets.set(key, { tokens: 0, at: now })
  }

  #tokens(key: string, now: UnixMs): number {
    const { burst, perSecond } = this.#options
    const bucket = this.#buckets.get(key)
    if (bucket === undefined) return burst
    // The clock was set back. The bucket earns nothing for that time and starts to earn again from now.
    if (now < bucket.at) bucket.at = now
    const earned = ((now - bucket.at) / 1000) * perSecond
    return Math.min(burst, bucket.tokens + earned)
  }
}
