import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, test } from 'vitest'
import { isGenuine, packChecks, type SignatureCheck, unpackChecks } from './signature.ts'
import { SignaturePool } from './signature-pool.ts'

function made(count: number): SignatureCheck[] {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const key = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url')
  return Array.from({ length: count }, (_, n) => {
    const signed = Buffer.from('x'.repeat(n))
    return { key, signed, signature: sign(null, signed, privateKey) }
  })
}

test('D8 T3 a pool of threads tells the genuine from the false, in their order, and takes jobs at once', async () => {
  const pool = new SignaturePool({ threadsMax: 2 })
  const checks = made(60)
  const false_ = new Set([3, 20, 41, 59])
  const mixed = checks.map((check, n) => {
    if (!false_.has(n)) return check
    return n === 20 ? { ...check, key: new Uint8Array(32).fill(255) } : { ...check, signature: checks[0]!.signature }
  })
  const expected = mixed.map((_, n) => !false_.has(n))
  expect(mixed.map(isGenuine)).toEqual(expected)
  const jobs = Array.from({ length: 5 }, () => pool.check(mixed))
  expect(await Promise.all(jobs)).toEqual(Array(5).fill(expected))
  // Few are checked without a thread.
  expect(await pool.check(mixed.slice(0, 4))).toEqual(expected.slice(0, 4))
  expect(await pool.check([])).toEqual([])
})

test('checks of one turn run together, and each gets its own answer', async () => {
  const pool = new SignaturePool({ threadsMax: 1 })
  const checks = made(30)
  const false_ = { ...checks[7]!, signature: checks[0]!.signature }
  const answers = await Promise.all(checks.map((check, n) => pool.check([n === 7 ? false_ : check])))
  expect(answers.map(([answer]) => answer)).toEqual(checks.map((_, n) => n !== 7))
  expect(await Promise.all([pool.check([]), pool.check([false_]), pool.check(checks.slice(0, 2))])).toEqual([
    [],
    [false],
    [true, true],
  ])
})

test('checks are packed and unpacked without a change', () => {
  const checks = made(5)
  expect([...unpackChecks(packChecks(checks))].map(({ signed }) => Buffer.from(signed).toString())).toEqual(
    checks.map(({ signed }) => Buffer.from(signed).toString()),
  )
  expect([...unpackChecks(packChecks(checks))].every(isGenuine)).toBe(true)
})
