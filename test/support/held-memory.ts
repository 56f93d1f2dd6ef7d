import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const LOOK_MS = 100

/** What is in use in the heap, in bytes. Garbage does not count. */
export function heldNow(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return process.memoryUsage().heapUsed
}

/** The most that was in use in the heap during some work beyond what was before it, in bytes. Garbage does not count. */
export async function heldDuring(work: () => Promise<unknown>): Promise<number> {
  const before = heldNow()
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, heldNow())
  }, LOOK_MS)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  return most - before
}
