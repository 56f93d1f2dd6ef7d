/** Unix time in milliseconds. */
export type UnixMs = number

/** The only source of time. Tests pass a clock they can turn by hand. */
export interface Clock {
  now(): UnixMs
}

export const systemClock: Clock = { now: () => Date.now() }

/** RFC 3339 UTC text of an instant. */
export function isoTime(at: UnixMs): string {
  return new Date(at).toISOString()
}
