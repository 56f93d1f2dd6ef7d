type Random = (length: number) => Uint8Array

const POOL_BYTES = 4096

/** Random bytes for ids, each given once. Asking the system costs as much for 4 KiB as for ten bytes. */
export function pooledBytes(random: Random): Random {
  let pool: Uint8Array = new Uint8Array(0)
  let used = 0
  return (length) => {
    if (used + length > pool.length) [pool, used] = [random(Math.max(POOL_BYTES, length)), 0]
    used += length
    return pool.subarray(used - length, used)
  }
}
