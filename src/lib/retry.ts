import { randomInt } from 'node:crypto'

/**
 * The wait after `failures` failures in a row. It doubles up to a limit, and half of it is random. Peers that lost the
 * same node therefore do not all return at once.
 */
export function backoffMs(failures: number, { firstMs, mostMs }: { firstMs: number; mostMs: number }): number {
  const full = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30))
  return full / 2 + randomInt(Math.ceil(full / 2) + 1)
}
