import type { UnixMs } from './clock.ts'

const TIME_BYTES = 6

/**
 * A value of `length` bytes that nobody can guess and that sorts by when it was made: six bytes of time, then random ones.
 *
 * What is looked up by such a value is found in an index that grows at its end. One of random values takes a page of its
 * own for every row, of a table however large.
 */
export function risingBytes(length: number, now: UnixMs, random: (length: number) => Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  bytes.writeUIntBE(now, 0, TIME_BYTES)
  bytes.set(random(length - TIME_BYTES), TIME_BYTES)
  return bytes
}

/** A UUID of version 7 (RFC 9562). */
export function risingUuid(now: UnixMs, random: (length: number) => Uint8Array): string {
  const bytes = risingBytes(16, now, random)
  bytes[6] = (bytes[6]! & 0x0f) | 0x70
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
