import fc from 'fast-check'
import { privateKeyToAccount } from 'viem/accounts'
import { expect, test } from 'vitest'
import type { Hex } from '../schema/primitives.ts'
import { recoverSigner } from './authorization.ts'
import { addressOfPublicKey, nativeSecp256k1, nobleSecp256k1, openSslPublicKey, secp256k1 } from './secp256k1.ts'

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const FIELD = 0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2fn

const noble = nobleSecp256k1()
const native = nativeSecp256k1()
const word = (value: bigint) => value.toString(16).padStart(64, '0')
const hexOf = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex')

/** Numbers at which implementations part: the ends of the field, of the order and of its halves. */
const edges = [
  0n,
  1n,
  2n,
  ORDER / 2n,
  ORDER / 2n + 1n,
  ORDER - 1n,
  ORDER,
  ORDER + 1n,
  FIELD - ORDER,
  FIELD,
  2n ** 256n - 1n,
]
const scalar = fc.oneof(fc.constantFrom(...edges), fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }))
const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 })
const digest = fc.oneof(
  bytes32,
  fc.constantFrom(...edges).map((edge) => Uint8Array.from(Buffer.from(word(edge), 'hex'))),
)
const key = fc.bigInt({ min: 1n, max: ORDER - 1n }).map((value) => Uint8Array.from(Buffer.from(word(value), 'hex')))

test.runIf(native !== undefined)('where there is a native build, it is the one in use', () => {
  expect(secp256k1.name).toBe('native')
})

test.runIf(native !== undefined)('native and noble sign the same, byte by byte', () => {
  fc.assert(
    fc.property(digest, key, (message, privateKey) => {
      const [ours, theirs] = [native!.sign(message, privateKey), noble.sign(message, privateKey)]
      expect(hexOf(native!.publicKey(privateKey))).toBe(hexOf(noble.publicKey(privateKey)))
      if (BigInt(`0x${hexOf(message)}`) < ORDER) {
        expect([hexOf(ours.compact), ours.recovery]).toEqual([hexOf(theirs.compact), theirs.recovery])
        return
      }
      // One digest in 2^128: RFC 6979 takes it modulo the order, libsecp256k1 as it is. Either signature is good.
      for (const signature of [ours, theirs]) {
        expect(hexOf(native!.recover(message, signature))).toBe(hexOf(native!.publicKey(privateKey)))
        expect(hexOf(noble.recover(message, signature))).toBe(hexOf(native!.publicKey(privateKey)))
      }
    }),
    { numRuns: 500 },
  )
})

test.runIf(native !== undefined)('native and noble recover the same key, or both none, whatever r, s and v are', () => {
  let recovered = 0
  let refused = 0
  fc.assert(
    fc.property(digest, scalar, scalar, fc.constantFrom<0 | 1>(0, 1), (message, r, s, recovery) => {
      const compact = Uint8Array.from(Buffer.from(word(r) + word(s), 'hex'))
      const ours = hexOf(native!.recover(message, { compact, recovery }))
      expect(ours).toBe(hexOf(noble.recover(message, { compact, recovery })))
      if (ours === undefined) refused++
      else recovered++
    }),
    { numRuns: 2500 },
  )
  // A property that meets only one side would prove nothing.
  expect(Math.min(recovered, refused)).toBeGreaterThan(200)
})

test.runIf(native !== undefined)('flipped bits of a true signature fare alike in both', () => {
  fc.assert(
    fc.property(digest, key, fc.nat(64 * 8 - 1), (message, privateKey, bit) => {
      const { compact, recovery } = noble.sign(message, privateKey)
      const flipped = Uint8Array.from(compact)
      flipped[bit >> 3]! ^= 1 << (bit & 7)
      const signature = { compact: flipped, recovery }
      const ours = hexOf(native!.recover(message, signature))
      expect(ours).toBe(hexOf(noble.recover(message, signature)))
      expect(ours).not.toBe(hexOf(noble.publicKey(privateKey)))
    }),
    { numRuns: 500 },
  )
})

test('recoverSigner answers the same by either curve for any 65 bytes', () => {
  const v = fc.oneof(fc.constantFrom(0, 1, 2, 3, 26, 27, 28, 29, 30, 31, 35, 255), fc.nat(255))
  fc.assert(
    fc.property(digest, scalar, scalar, v, (message, r, s, last) => {
      const signature: Hex = `0x${word(r)}${word(s)}${last.toString(16).padStart(2, '0')}`
      const ours = recoverSigner(message, signature)
      const theirs = recoverSigner(message, signature, noble)
      expect(ours.ok).toBe(theirs.ok)
      if (ours.ok && theirs.ok) {
        expect(hexOf(ours.publicKey)).toBe(hexOf(theirs.publicKey))
        expect(ours.signature).toBe(theirs.signature)
        expect(ours.signature).toMatch(/(1b|1c)$/)
        expect(s).toBeLessThanOrEqual(ORDER / 2n)
      }
    }),
    { numRuns: 1500 },
  )
})

test('OpenSSL finds the same public key, and none where there is none', () => {
  fc.assert(
    fc.property(scalar, (value) => {
      const privateKey = Uint8Array.from(Buffer.from(word(value), 'hex'))
      const isKey = value > 0n && value < ORDER
      expect(hexOf(openSslPublicKey(privateKey))).toBe(isKey ? hexOf(noble.publicKey(privateKey)) : undefined)
    }),
    { numRuns: 300 },
  )
})

test('an address is checksummed as EIP-55 wants it', () => {
  fc.assert(
    fc.property(key, (privateKey) => {
      const account = privateKeyToAccount(`0x${hexOf(privateKey)}`)
      expect(addressOfPublicKey(secp256k1.publicKey(privateKey))).toBe(account.address)
    }),
    { numRuns: 50 },
  )
})
