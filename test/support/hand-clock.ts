import type { Clock, UnixMs } from '../../src/lib/clock.ts'

/** A clock that moves only by hand. */
export class HandClock implements Clock {
  #now: UnixMs
  #monotonic = 0

  constructor(now: UnixMs = Date.UTC(2026, 0, 1)) {
    this.#now = now
  }

  now(): UnixMs {
    return this.#now
  }

  monotonic(): number {
    return this.#monotonic
  }

  /** Lets time pass; where negative, sets the wall clock back. */
  advance(ms: number): void {
    this.#now += ms
    this.#monotonic += Math.max(0, ms)
  }

  set(now: UnixMs): void {
    this.advance(now - this.#now)
  }

  /** Sets the wall clock, as an operator or NTP does: no time passes. */
  jump(ms: number): void {
    this.#now += ms
  }
}
