import type { Clock, UnixMs } from '../../src/lib/clock.ts'

/** A clock that moves only by hand. */
export class HandClock implements Clock {
  #now: UnixMs

  constructor(now: UnixMs = Date.UTC(2026, 0, 1)) {
    this.#now = now
  }

  now(): UnixMs {
    return this.#now
  }

  /** Forward, or back where negative. */
  advance(ms: number): void {
    this.#now += ms
  }

  set(now: UnixMs): void {
    this.#now = now
  }
}
