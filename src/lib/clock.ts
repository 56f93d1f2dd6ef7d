/** Unix time in milliseconds. */
export type UnixMs = number

/** The only source of time. Tests pass a clock that they turn by hand. */
export interface Clock {
  now(): UnixMs
  /** Milliseconds since some instant. Setting the wall clock does not change it. */
  monotonic?(): number
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }

/** Time for pauses and deadlines, which must not change when the wall clock is set. */
export function monotonicOf(clock: Clock): number {
  return clock.monotonic?.() ?? clock.now()
}

/** A moment of this process. The wall clock may be set, and the monotonic one may stand still while the machine sleeps. */
export type Moment = { wall: UnixMs; monotonic: number }

export function momentOf(clock: Clock): Moment {
  return { wall: clock.now(), monotonic: monotonicOf(clock) }
}

/** How long ago a moment was, in ms, by the clock that counts more. Infinity: the wall clock was set back, so nobody knows. */
export function sinceMs(moment: Moment, clock: Clock): number {
  const wallMs = clock.now() - moment.wall
  return wallMs < 0 ? Number.POSITIVE_INFINITY : Math.max(wallMs, monotonicOf(clock) - moment.monotonic)
}

/** NTP corrects a clock in smaller steps. */
const JUMP_MIN_MS = 1_000

/** Detects that the wall clock was set. */
export class ClockJumps {
  readonly #clock: Clock
  #offset: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#offset = this.#offsetNow()
  }

  /** Returns true if the wall clock was set since the last call, forward or back. */
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

/** An instant as RFC 3339 text in UTC. */
export function isoTime(at: UnixMs): string {
  return new Date(at).toISOString()
}

const DAY_MS = 24 * 60 * 60 * 1000
let lastDay = { number: Number.NaN, text: '' }

/** The day of an instant in UTC, as `2026-01-31`. A day is written once: each purchase asks for it. */
export function utcDay(at: UnixMs): string {
  const number = Math.floor(at / DAY_MS)
  if (number !== lastDay.number) lastDay = { number, text: isoTime(at).slice(0, 10) }
  return lastDay.text
}
