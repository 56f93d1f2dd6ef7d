/** What an honest peer feels of an attack: how long its calls take alone and beside it, in one run of one test. */
import { expect } from 'vitest'

/** Less is what a machine does by itself: two processors, and other tests on them. */
const HICCUP_MS = 50
/** Of several rounds the best counts, quiet and attacked alike: other processes slow some of them. */
const ROUNDS = 3

/** Makes calls one after the other: so many, and more as long as it is not over. @returns what 99 of 100 took at most, in ms */
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

/** A call beside an attack may take three times as long as without; less than a machine's own hiccups is not looked at. */
export function bearable(quietMs: number): number {
  return 3 * Math.max(quietMs, HICCUP_MS)
}

/**
 * Makes an honest peer's calls alone, then beside an attack, round by round until one is bearable.
 *
 * @param attack one round of it, which ends by itself
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
    // Awaited below: until then a failure of it is nobody's.
    attacking.catch(() => {})
    beside.push(await p99(call, calls, attacking))
    await attacking
  }
  expect(Math.min(...beside), `p99 alone: ${quiet}, beside the attack: ${beside}, in ms`).toBeLessThan(limitMs)
}
