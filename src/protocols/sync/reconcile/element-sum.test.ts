import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readVectors } from '../../../../test/support/read-vectors.ts'
import { elementKey } from './element-key.ts'
import { addElements, addSum, emptySum, minus, plus, SUM_BYTES, SUM_WORDS } from './element-sum.ts'
import { createSessionHash } from './session-hash.ts'

const vectors = readVectors<{
  elements: { updated_at: number; sha256: string; key: string }[]
  sums: { about: string; keys: string[]; sum: string }[]
  sessions: {
    salt: string
    fingerprints: { sum: string; count: number; fingerprint: string }[]
    short_ids: { key: string; id: string }[]
  }[]
}>('reconciliation')
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'hex'))

const keyOf = (name: number, time = name) => elementKey(time, createHash('sha256').update(`${name}`).digest('hex'))

function sumOf(keys: readonly Uint8Array[]) {
  const sum = emptySum()
  addElements(sum, Buffer.concat(keys), 0, keys.length)
  return sum
}

test('a sum depends on neither order nor grouping (property)', () => {
  const names = fc.uniqueArray(fc.nat(1000), { maxLength: 200 })
  const mixed = names.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
  )
  fc.assert(
    fc.property(mixed, fc.nat(200), ([list, other], cut) => {
      const whole = sumOf(list.map((name) => keyOf(name)))
      const keys = other.map((name) => keyOf(name))
      const [a, b] = [sumOf(keys.slice(0, cut)), sumOf(keys.slice(cut))]
      expect(plus(a, b)).toEqual(whole)
      expect(minus(whole, b)).toEqual(a)
      addSum(a, b)
      expect(a).toEqual(whole)
    }),
  )
})

test('time and hash both count, in every word', () => {
  const [a, otherTime, otherHash] = [keyOf(1, 5), keyOf(1, 6), keyOf(2, 5)].map((key) => sumOf([key]))
  for (const other of [otherTime!, otherHash!]) {
    expect(minus(a!, other).filter((word) => word !== 0)).toHaveLength(SUM_WORDS)
  }
})

test.each(vectors.elements)('key: $key', ({ updated_at, sha256, key }) => {
  expect(Buffer.from(elementKey(updated_at, sha256)).toString('hex')).toBe(key)
})

test.each(vectors.sums)('sum: $about', ({ keys, sum }) => {
  expect(Buffer.from(sumOf(keys.map(bytesOf)).buffer, 0, SUM_BYTES).toString('hex')).toBe(sum)
})

test.each(vectors.sessions)('names under the salt $salt', ({ salt, fingerprints, short_ids }) => {
  const hash = createSessionHash(bytesOf(salt))
  for (const { sum, count, fingerprint } of fingerprints) {
    const words = new Int32Array(bytesOf(sum).buffer)
    expect(Buffer.from(hash.fingerprint(words, count)).toString('hex')).toBe(fingerprint)
  }
  const keys = Buffer.concat(short_ids.map(({ key }) => bytesOf(key)))
  expect(hash.shortIds(keys)).toEqual(short_ids.map(({ id }) => Number.parseInt(id, 16)))
})

test('equal sums of different counts have different fingerprints', () => {
  const { fingerprint } = createSessionHash(new Uint8Array(16))
  expect(fingerprint(emptySum(), 0)).not.toEqual(fingerprint(emptySum(), 1))
})

/** 400 listings of a stranger, of which linear algebra picks some whose hashes XOR to nothing. */
function vanishingUnderXor(): Uint8Array[] {
  const keys = Array.from({ length: 400 }, (_, name) => keyOf(name, 0))
  const reduced = new Map<bigint, { value: bigint; members: Set<number> }>()
  for (const [index, key] of keys.entries()) {
    let value = BigInt(`0x${Buffer.from(key).toString('hex')}`)
    let members = new Set([index])
    while (value !== 0n) {
      const pivot = BigInt(value.toString(2).length)
      const held = reduced.get(pivot)
      if (held === undefined) {
        reduced.set(pivot, { value, members })
        break
      }
      value ^= held.value
      members = members.symmetricDifference(held.members)
    }
    if (value === 0n) return [...members].map((member) => keys[member]!)
  }
  return []
}

test('T3 listings chosen so that their hashes XOR to nothing do not vanish from the sum', () => {
  const keys = vanishingUnderXor()
  expect(keys.length).toBeGreaterThan(10)
  const xor = keys.reduce((value, key) => value ^ BigInt(`0x${Buffer.from(key).toString('hex')}`), 0n)
  expect(xor).toBe(0n)
  expect(sumOf(keys).filter((word) => word !== 0)).toHaveLength(SUM_WORDS)
})
