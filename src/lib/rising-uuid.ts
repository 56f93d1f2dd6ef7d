import type { UnixMs } from './clock.ts'

const TIME_BYTES = 6
const RANDOM_BYTES = 10

/** A UUID of version 7 (RFC 9562): cannot be guessed, and sorts by time, so that an index grows at its end only. */
export function risingUuid(now: UnixMs, random: (length: number) => Uint8Array): string {
  const bytes = Buffer.alloc(TIME_BYTES + RANDOM_BYTES)
  bytes.writeUIntBE(now, 0, TIME_BYTES)
  bytes.set(random(RANDOM_BYTES), TIME_BYTES)
  bytes[6] = (bytes[6]! & 0x0f) | 0x70
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
