import { setImmediate } from 'node:timers/promises'

/** The longest the rest of the node waits for a built-in agent. */
const TURN_MS = 8

/** Call it often: after a few milliseconds' work it lets the rest of the node go on. */
export type Pace = () => Promise<void>

/** @returns a function that throws the reason of `signal` once that has aborted */
export function createPace(signal: AbortSignal): Pace {
  let since = performance.now()
  return async () => {
    if (performance.now() - since < TURN_MS) return
    await setImmediate()
    signal.throwIfAborted()
    since = performance.now()
  }
}
