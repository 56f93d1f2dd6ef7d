/**
 * Waits for work that continues anyway, for at most `limitMs`. @returns true if the work has ended. Rethrows its error.
 */
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
