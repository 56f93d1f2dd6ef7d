import { randomInt } from 'node:crypto'

/** Wait after the first failure, and the longest wait after many failures. */
export type Backoff = { firstMs: number; mostMs: number }

/** The wait after `failures` failures in a row. It doubles up to a limit. */
export function doubledMs(failures: number, { firstMs, mostMs }: Backoff): number {
  return Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30))
}

/** Like `doubledMs`, but half of it is random. Peers that lost the same node therefore do not all return at once. */
export function backoffMs(failures: number, limits: Backoff): number {
  return halfRandom(doubledMs(failures, limits))
}

/** Between half of the time and all of it. */
export function halfRandom(ms: number): number {
  return ms / 2 + randomInt(Math.ceil(ms / 2) + 1)
}
