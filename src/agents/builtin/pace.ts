import { setImmediate } from 'node:timers/promises'

/** Longest time that a built-in agent blocks the event loop, in ms. */
const TURN_MS = 8

/** Yields to the event loop after a few milliseconds of work. Call it often. */
export type Pace = () => Promise<void>

/** @returns a function that throws the reason of `signal` after it has aborted */
export function createPace(signal: AbortSignal): Pace {
  let since = performance.now()
  return async () => {
    if (performance.now() - since < TURN_MS) return
    await setImmediate()
    signal.throwIfAborted()
    since = performance.now()
  }
}
