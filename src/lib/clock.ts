/** Unix time in milliseconds. */
export type UnixMs = number

/** The only source of time. Tests pass a clock they can turn by hand. */
export interface Clock {
  now(): UnixMs
  /** Milliseconds since some instant. An operator or NTP that sets the wall clock does not move it. */
  monotonic?(): number
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }

/** For pauses and deadlines: they must not grow or vanish when the wall clock is set. */
export function monotonicOf(clock: Clock): number {
  return clock.monotonic?.() ?? clock.now()
}

/** NTP moves a clock by less, little by little. */
const JUMP_MIN_MS = 1_000

/** Notices that the wall clock was set. */
export class ClockJumps {
  readonly #clock: Clock
  #offset: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#offset = this.#offsetNow()
  }

  /** Whether the wall clock was set since the last call, forward or back. */
  seen(): boolean {
    const offset = this.#offsetNow()
    const jump = Math.abs(offset - this.#offset)
    this.#offset = offset
    return jump > JUMP_MIN_MS
  }

  #offsetNow(): number {
    return this.#clock.now() - monotonicOf(this.#clock)
  }
}

/** RFC 3339 UTC text of an instant. */
export function isoTime(at: UnixMs): string {
  return new Date(at).toISOString()
}
