import fc from 'fast-check'
import { expect, test } from 'vitest'
import { keccak256, nativeKeccak256, nobleKeccak256 } from './keccak.ts'

const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const noble = nobleKeccak256()
const native = nativeKeccak256()

test('is Keccak-256 and not SHA3-256', () => {
  const empty = 'c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470'
  for (const keccak of [keccak256, noble]) expect(hexOf(keccak(new Uint8Array()))).toBe(empty)
})

test.runIf(native !== undefined)('OpenSSL and noble agree on every text', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => hexOf(native!(bytes)) === hexOf(noble(bytes))))
})
