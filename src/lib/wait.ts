import { setTimeout as delay } from 'node:timers/promises'

/** Waits at most `limitMs` for work that continues anyway. @returns whether it has ended. Rethrows its error. */
export async function within(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(resolve, limitMs, false)
  // Ignore errors after the limit.
  work.catch(() => {})
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}

/** Resolves with true after `ms`, or with false as soon as the signal aborts. */
export async function pause(ms: number, signal?: AbortSignal): Promise<boolean> {
  return await delay(ms, true, { ...(signal && { signal }) }).catch(() => false)
}

/** Like `pause`, for work in the background: keeps no process alive. */
export async function idle(ms: number, signal: AbortSignal): Promise<boolean> {
  return await delay(ms, true, { signal, ref: false }).catch(() => false)
}

/** Rejects with the signal's reason if it aborts first. `late` gets a later value, so that nothing stays open. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal, late?: (value: T) => void): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([promise, aborted])
  } catch (error) {
    promise.then(late, () => {})
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
    aborted.catch(() => {})
  }
}

/** Calls `ask` until it returns a value, for at most `limitMs`. @throws the signal's reason */
export async function poll<T>(
  ask: () => T | undefined,
  { limitMs, everyMs = 100, signal }: { limitMs: number; everyMs?: number; signal: AbortSignal },
): Promise<T | undefined> {
  const deadline = performance.now() + limitMs
  for (;;) {
    signal.throwIfAborted()
    const answer = ask()
    if (answer !== undefined || performance.now() >= deadline) return answer
    await pause(everyMs, signal)
  }
}
