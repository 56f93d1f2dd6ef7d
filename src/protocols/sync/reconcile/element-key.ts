import type { UnixMs } from '../../../lib/clock.ts'

/**
 * The key of one version of one listing in reconciliation. It has 6 bytes of `updated_at` (Unix ms, big-endian), then
 * the first 16 bytes of the SHA-256 of the signed bytes. Byte order is time order.
 */
export type ElementKey = Uint8Array
/** A position before the element with an equal key: a key whose insignificant bytes are zero. */
export type Bound = Uint8Array

export const TIME_BYTES = 6
export const HASH_BYTES = 16
export const KEY_BYTES = TIME_BYTES + HASH_BYTES
/** The latest time of an element, in the year 10889. `END` is therefore above all elements. */
export const TIME_MAX = 2 ** 48 - 2
/** Low bits of a time that a bound may leave out: 2^29 ms are six days. */
export const SHIFT_MAX = 29

export const START: Bound = new Uint8Array(KEY_BYTES)
export const END: Bound = new Uint8Array(KEY_BYTES).fill(0xff)

/** @param hash hex SHA-256. @throws RangeError if no element can have this time */
export function elementKey(time: UnixMs, hash: string): ElementKey {
  const key = Buffer.alloc(KEY_BYTES)
  writeElementKey(key, 0, time, hash)
  return key
}

/** Writes the key of `elementKey` into packed keys. */
export function writeElementKey(keys: Buffer, at: number, time: UnixMs, hash: string): void {
  if (!Number.isSafeInteger(time) || time < 0 || time > TIME_MAX)
    throw new RangeError(`not the time of an element: ${time}`)
  keys.writeUIntBE(time, at, TIME_BYTES)
  if (keys.write(hash.slice(0, 2 * HASH_BYTES), at + TIME_BYTES, HASH_BYTES, 'hex') !== HASH_BYTES) {
    throw new RangeError(`not a SHA-256 hash in hex: ${hash}`)
  }
}

/** The position before all elements of a time. @throws RangeError */
export function boundAt(time: UnixMs): Bound {
  if (!Number.isSafeInteger(time) || time < 0 || time > TIME_MAX)
    throw new RangeError(`not the time of an element: ${time}`)
  const bound = new Uint8Array(KEY_BYTES)
  for (let index = TIME_BYTES - 1, rest = time; index >= 0; index--, rest = Math.floor(rest / 256)) bound[index] = rest
  return bound
}

export function timeOf(key: Bound): UnixMs {
  let time = 0
  for (let index = 0; index < TIME_BYTES; index++) time = time * 256 + key[index]!
  return time
}

export function compareKeys(a: Uint8Array, b: Uint8Array, aOffset = 0, bOffset = 0): number {
  for (let index = 0; index < KEY_BYTES; index++) {
    const difference = a[aOffset + index]! - b[bOffset + index]!
    if (difference !== 0) return difference
  }
  return 0
}

/** The bound with the shortest encoding that is above `below` and not above `above`. */
export function boundBetween(below: ElementKey, above: ElementKey): Bound {
  const from = timeOf(below)
  const to = timeOf(above)
  if (from === to) {
    let length = TIME_BYTES
    while (below[length] === above[length]) length++
    const bound = new Uint8Array(KEY_BYTES)
    bound.set(above.subarray(0, length + 1))
    return bound
  }
  let time = to
  for (let shift = 1; shift <= SHIFT_MAX; shift++) {
    const coarser = Math.floor(to / 2 ** shift) * 2 ** shift
    if (coarser <= from) break
    time = coarser
  }
  return boundAt(time)
}
