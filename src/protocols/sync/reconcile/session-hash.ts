import { createCipheriv, hash } from 'node:crypto'
import { KEY_BYTES } from './element-key.ts'
import { blockOf, type ElementSum, SUM_BYTES } from './element-sum.ts'

export const SALT_BYTES = 16
export const FINGERPRINT_BYTES = 8
export const SHORT_ID_BYTES = 6

const BLOCK_BYTES = 16

/** The name of an element within one session: a number of 48 bits. */
export type ShortId = number

/**
 * Short names for elements and ranges within one session. Each session has a new salt, so the names can be short:
 * nobody can prepare listings with equal names. By chance two names in a range are equal once in 2^48 / (n·m), and the
 * next session finds the difference. A peer that chooses the salt itself deceives only itself.
 */
export type SessionHash = {
  /** The fingerprint of a range, from its sum and count. */
  fingerprint(sum: ElementSum, count: number): Uint8Array
  /** The names of packed keys, in their order. */
  shortIds(keys: Uint8Array): ShortId[]
}

/** @param salt 16 bytes */
export function createSessionHash(salt: Uint8Array): SessionHash {
  const cipher = createCipheriv('aes-128-ecb', salt, null).setAutoPadding(false)
  const text = Buffer.alloc(SALT_BYTES + 4 + SUM_BYTES)
  text.set(salt)
  return {
    /** The first 8 bytes of SHA-256(salt ‖ count, u32be ‖ sum). */
    fingerprint(sum, count) {
      text.writeUInt32BE(count, SALT_BYTES)
      text.set(new Uint8Array(sum.buffer, sum.byteOffset, SUM_BYTES), SALT_BYTES + 4)
      return hash('sha256', text, 'buffer').subarray(0, FINGERPRINT_BYTES)
    },

    /** The first 6 bytes, big-endian, of AES-128 with the salt as key, applied to the hash XORed with the time. */
    shortIds(keys) {
      const count = keys.length / KEY_BYTES
      const blocks = new Int32Array(4 * count)
      for (let element = 0; element < count; element++) blocks.set(blockOf(keys, element * KEY_BYTES), 4 * element)
      const output = cipher.update(new Uint8Array(blocks.buffer))
      const ids: ShortId[] = []
      for (let at = 0; at < output.length; at += BLOCK_BYTES) ids.push(output.readUIntBE(at, SHORT_ID_BYTES))
      return ids
    },
  }
}
