/**
 * Measures the effect of an attack on an honest peer: how long calls take alone and during the attack, in the same
 * test.
 */
import { expect } from 'vitest'

/** In ms. Shorter delays come from the machine itself: two processors, shared with other tests. */
const HICCUP_MS = 50
/** The best of several rounds counts, with and without the attack: other processes slow some rounds. */
const ROUNDS = 3

/**
 * Makes this number of calls one after the other, and continues until the attack is over. @returns the p99 of the
 * calls, in ms
 */
export async function p99(call: () => Promise<unknown>, calls: number, until?: Promise<unknown>): Promise<number> {
  const times: number[] = []
  let over = until === undefined
  const end = () => {
    over = true
  }
  until?.then(end, end)
  for (let made = 0; made < calls || !over; made++) {
    const began = performance.now()
    await call()
    times.push(performance.now() - began)
  }
  times.sort((a, b) => a - b)
  return times[Math.floor(times.length * 0.99)]!
}

/**
 * The limit for a call during an attack: three times the quiet p99. Delays within the machine's own noise do not count.
 */
export function bearable(quietMs: number): number {
  return 3 * Math.max(quietMs, HICCUP_MS)
}

/**
 * Makes an honest peer's calls alone, then during an attack, and repeats until one round is bearable.
 *
 * @param attack one round of the attack, which ends by itself
 */
export async function expectBearable(
  call: () => Promise<unknown>,
  attack: (round: number) => Promise<unknown>,
  { calls = 100 }: { calls?: number } = {},
): Promise<void> {
  await p99(call, Math.ceil(calls / 5))
  const quiet: number[] = []
  for (let round = 0; round < ROUNDS; round++) quiet.push(await p99(call, calls))
  const limitMs = bearable(Math.min(...quiet))
  const beside: number[] = []
  for (let round = 0; round < ROUNDS && !beside.some((ms) => ms < limitMs); round++) {
    const attacking = attack(round)
    // The code below awaits the attack. Until then a failure must not count as an unhandled rejection.
    attacking.catch(() => {})
    beside.push(await p99(call, calls, attacking))
    await attacking
  }
  expect(Math.min(...beside), `p99 alone: ${quiet}, beside the attack: ${beside}, in ms`).toBeLessThan(limitMs)
}
