/** Waits for work that goes on by itself, but no longer than `limitMs`. @returns whether it has ended; what it threw is thrown */
export async function within(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(resolve, limitMs, false)
  // What it throws later is nobody's any more.
  work.catch(() => {})
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}
