const ROUNDS = 10

/** The shortest time that some work takes, in ms: what a busy machine adds to it is not in it. Compare it with another's. */
export async function shortest(work: () => Promise<unknown>): Promise<number> {
  let ms = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const from = performance.now()
    await work()
    ms = Math.min(ms, performance.now() - from)
  }
  return ms
}
