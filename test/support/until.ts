const PAUSE_PER_LOOK = 4

/**
 * Waits until `condition` is truthy and returns its value; fails after `timeoutMs`. The default is enough on a machine that is
 * ten times slower than a quiet one: say less only where the time may run out.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 60_000, everyMs = 10 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const asked = performance.now()
    const value = await condition()
    if (value) return value as NonNullable<T>
    const now = performance.now()
    if (now > deadline) throw new Error(`condition not met within ${timeoutMs} ms: ${condition}`)
    // A condition that asks a node takes time from what it waits for.
    await new Promise((resolve) => setTimeout(resolve, Math.max(everyMs, (now - asked) * PAUSE_PER_LOOK)))
  }
}
