/** Random numbers that are the same in every run of one seed. */
export type Random = {
  /** An integer from 0 up to, but not including, `limit`. */
  below(limit: number): number
  chance(probability: number): boolean
  pick<T>(items: readonly T[]): T
  bytes(length: number): Uint8Array
}

/** The sfc32 generator. It is short and passes the usual test batteries. */
export function seededRandom(seed: number): Random {
  let [a, b, c, counter] = [0x9e3779b9, 0x243f6a88, seed | 0, 1]

  function next(): number {
    const sum = (a + b + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    return sum >>> 0
  }

  for (let turn = 0; turn < 20; turn++) next()
  const random: Random = {
    below: (limit) => Math.floor((next() / 2 ** 32) * limit),
    chance: (probability) => next() / 2 ** 32 < probability,
    pick: (items) => items[random.below(items.length)]!,
    bytes: (length) => Uint8Array.from({ length }, () => next() & 0xff),
  }
  return random
}
