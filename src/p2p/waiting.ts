import { randomInt } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'

/**
 * The promise's outcome, or the signal's reason if that comes first. What arrives later is handed to `late`, so that
 * nothing opened in the meantime is left behind.
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

/** Resolves after a while, false if the signal ended it before. Keeps no process alive. */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return await setTimeout(ms, true, { signal, ref: false }).catch(() => false)
}

/** How long to wait after the n-th failure in a row: doubling up to a limit, and half of it by chance, so that peers that lost the same node do not come back as one. */
export function backoffMs(failures: number, { firstMs, mostMs }: { firstMs: number; mostMs: number }): number {
  const full = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30))
  return full / 2 + randomInt(Math.ceil(full / 2) + 1)
}
