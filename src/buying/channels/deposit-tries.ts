import { doubledMs } from '../../lib/retry.ts'

/** How long a seller is left alone after deposits that failed. A try costs some reads, and calls cost transactions meanwhile. */
const AGAIN = { firstMs: 5_000, mostMs: 60_000 }
/** A deposit that is signed can be sent for so long, so no other one is begun. */
const UNDER_WAY_MS = 10 * 60_000
/** How long calls wait for deposits at a seller until one lands. On Base a deposit takes some seconds, on a slow chain a minute. */
const AWAITED_MS = 2 * 60_000

/** `price`: what a call costs that a failed deposit was for. `passes`: it may pass by itself within seconds. */
type Failure = { why: string; price: bigint; passes: boolean }

/**
 * `until`: no other deposit is begun before. `failures`: in a row. `said`: why the last one failed, while the next one is tried.
 * `shortSince`: when the first one was begun since one has landed. Times are those of the monotonic clock.
 */
type Tried = {
  until: number
  failures: number
  failure?: Failure | undefined
  said?: string | undefined
  shortSince: number
  isAwaited?: true
}

/** The deposits that this node tries to make, one at each seller. */
export class DepositTries {
  readonly #sellers = new Map<string, Tried>()

  begin(sellerId: string, now: number): void {
    const before = this.#triedBefore(sellerId, now)
    this.#sellers.set(sellerId, { ...before, until: now + UNDER_WAY_MS, failure: undefined })
  }

  /**
   * Most failures pass: an RPC that does not answer, or a limit that money in use reaches. So the next try comes soon.
   *
   * @returns whether the last one failed for the same reason
   */
  failed(sellerId: string, failure: Failure, now: number): { isKnown: boolean } {
    const before = this.#triedBefore(sellerId, now)
    const failures = before.failures + 1
    this.#sellers.set(sellerId, {
      ...before,
      until: now + doubledMs(failures, AGAIN),
      failures,
      failure,
      said: failure.why,
    })
    return { isKnown: before.said === failure.why }
  }

  landed(sellerId: string): void {
    this.#sellers.delete(sellerId)
  }

  /** True while no deposit is begun for a call of this price. One that was too much for a dearer call says nothing of this one. */
  isHeld(sellerId: string, price: bigint, now: number): boolean {
    return (this.#tried(sellerId, price)?.until ?? Number.NEGATIVE_INFINITY) > now
  }

  /** Why the last deposit failed. Undefined: it did not. */
  failure(sellerId: string, price: bigint): string | undefined {
    return this.#tried(sellerId, price)?.failure?.why
  }

  /** `isFirst`: nobody has asked about this deposit yet. Undefined: no deposit is on its way that a call should wait for. */
  awaited(sellerId: string, now: number): { isFirst: boolean } | undefined {
    const tried = this.#sellers.get(sellerId)
    if (tried === undefined || now - tried.shortSince >= AWAITED_MS || tried.failure?.passes === false) return undefined
    const isFirst = tried.isAwaited !== true
    tried.isAwaited = true
    return { isFirst }
  }

  #triedBefore(sellerId: string, now: number): Tried {
    return this.#sellers.get(sellerId) ?? { until: now, failures: 0, shortSince: now }
  }

  #tried(sellerId: string, price: bigint): Tried | undefined {
    const tried = this.#sellers.get(sellerId)
    return tried?.failure !== undefined && tried.failure.price > price ? undefined : tried
  }
}
