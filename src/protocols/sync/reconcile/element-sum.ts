import { createCipheriv } from 'node:crypto'
import { HASH_BYTES, KEY_BYTES, TIME_BYTES } from './element-key.ts'

/**
 * The sum of a set of elements: 40 words, each modulo 2^32. It does not depend on the order. Sums of parts add up to
 * the sum of the whole, and can be subtracted from it. The sum of any range therefore costs O(log n).
 *
 * The sum must withstand this attack. Anybody may put listings of their own into our set, as many as a replica holds,
 * and may try billions of listings offline. Suppose an attacker finds two sets with equal sums, and one set includes an
 * honest listing. The attacker gives one set to each of two nodes, and neither node learns of the difference.
 *
 * For an XOR of hashes the attack takes linear algebra over a few hundred listings. For a sum modulo 2^256 and 2^17
 * listings it takes about 2^31 steps. (The generalized birthday problem takes 2^(a + n/(a+1)) steps for n bits and 2^a
 * elements.) For 1280 bits and 2^17 elements in either set it takes about 2^85 steps, and as much memory. With 2^20
 * elements it takes 2^80. Lattice reduction costs even more. The sum therefore needs no key, and sums are kept across
 * sessions. LtHash is the same for sets without a limit, and so it needs 16384 bits.
 *
 * AES-128 under a fixed, public key turns an element into words (little-endian). Its input is ten blocks. Each block is
 * the hash XOR the time, with the 13th byte XORed with the number of the block. The hash is a SHA-256, so nobody can
 * choose the input. AES only stretches it, at a tenth of the cost of an extendable hash.
 */
export type ElementSum = Int32Array

export const SUM_WORDS = 40
export const SUM_BYTES = 4 * SUM_WORDS

/** AES blocks of 16 bytes each. */
const BLOCKS = SUM_BYTES / HASH_BYTES
/** Elements stretched at once. */
const BATCH_MAX = 64
const input = new Int32Array(BATCH_MAX * SUM_WORDS)
const inputBytes = new Uint8Array(input.buffer)
// ECB on whole blocks keeps no state between calls.
const stretch = createCipheriv('aes-128-ecb', 'stoa/reconcile/1', null).setAutoPadding(false)

export function emptySum(): ElementSum {
  return new Int32Array(SUM_WORDS)
}

/** Adds the elements `from` to `to` of packed keys. */
export function addElements(sum: ElementSum, keys: Uint8Array, from: number, to: number): void {
  for (let start = from; start < to; start += BATCH_MAX) {
    const count = Math.min(BATCH_MAX, to - start)
    const words = stretchElements(keys, start, count)
    for (let offset = 0; offset < words.length; offset += SUM_WORDS) {
      for (let word = 0; word < SUM_WORDS; word++) sum[word]! += words[offset + word]!
    }
  }
}

export function addSum(sum: ElementSum, other: ElementSum): void {
  for (let word = 0; word < SUM_WORDS; word++) sum[word]! += other[word]!
}

export function plus(a: ElementSum, b: ElementSum): ElementSum {
  const sum = a.slice()
  addSum(sum, b)
  return sum
}

export function minus(a: ElementSum, b: ElementSum): ElementSum {
  const sum = a.slice()
  for (let word = 0; word < SUM_WORDS; word++) sum[word]! -= b[word]!
  return sum
}

/** The 40 words of each element, for at most 64 elements. */
export function stretchElements(keys: Uint8Array, from: number, count: number): Int32Array {
  for (let element = 0; element < count; element++) {
    const at = element * SUM_WORDS
    const [a, b, c, d] = blockOf(keys, (from + element) * KEY_BYTES)
    for (let block = 0; block < BLOCKS; block++) {
      const word = at + 4 * block
      input[word] = a
      input[word + 1] = b
      input[word + 2] = c
      input[word + 3] = d ^ block
    }
  }
  const output = stretch.update(inputBytes.subarray(0, count * SUM_BYTES))
  const aligned = output.byteOffset % 4 === 0 ? output : new Uint8Array(output)
  return new Int32Array(aligned.buffer, aligned.byteOffset, count * SUM_WORDS)
}

/**
 * Four words, little-endian: the hash XORed with the time. Finding two keys with the same block is as hard as finding
 * two with the same hash, because nobody can choose the hash.
 */
export function blockOf(keys: Uint8Array, at: number): [number, number, number, number] {
  return [
    wordAt(keys, at + TIME_BYTES) ^ wordAt(keys, at),
    wordAt(keys, at + TIME_BYTES + 4) ^ keys[at + 4]! ^ (keys[at + 5]! << 8),
    wordAt(keys, at + TIME_BYTES + 8),
    wordAt(keys, at + TIME_BYTES + 12),
  ]
}

function wordAt(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}
