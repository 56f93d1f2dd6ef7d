import { randomInt } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'

/**
 * The promise's outcome, or the signal's reason if the signal aborts first. A value that arrives later is passed to
 * `late`, so that nothing stays open.
 */
export async function orAbandon<T>(promise: Promise<T>, signal: AbortSignal, late?: (value: T) => void): Promise<T> {
  const { promise: abandoned, reject } = Promise.withResolvers<never>()
  const abandon = () => reject(signal.reason)
  if (signal.aborted) abandon()
  else signal.addEventListener('abort', abandon, { once: true })
  try {
    return await Promise.race([promise, abandoned])
  } catch (error) {
    promise.then(late, () => {})
    throw error
  } finally {
    signal.removeEventListener('abort', abandon)
    abandoned.catch(() => {})
  }
}

/** Resolves with true after `ms`, or with false if the signal aborts first. Keeps no process alive. */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return await setTimeout(ms, true, { signal, ref: false }).catch(() => false)
}

/**
 * The wait after `failures` failures in a row. It doubles up to a limit, and half of it is random. Peers that lost the
 * same node therefore do not all return at once.
 */
export function backoffMs(failures: number, { firstMs, mostMs }: { firstMs: number; mostMs: number }): number {
  const full = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30))
  return full / 2 + randomInt(Math.ceil(full / 2) + 1)
}
