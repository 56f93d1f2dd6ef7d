import type { Clock, UnixMs } from '../../src/lib/clock.ts'

/** A clock that moves only when the test moves it. */
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

  /** Lets time pass. A negative value sets the wall clock back. */
  advance(ms: number): void {
    this.#now += ms
    this.#monotonic += Math.max(0, ms)
  }

  set(now: UnixMs): void {
    this.advance(now - this.#now)
  }

  /** Sets the wall clock, as an operator or NTP does. The monotonic time does not change. */
  jump(ms: number): void {
    this.#now += ms
  }
}
