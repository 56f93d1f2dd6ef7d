import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { risingBytes, risingUuid } from './rising-id.ts'

const now = Date.UTC(2026, 10, 21)

test('what was made later sorts behind', () => {
  for (const make of [risingUuid, (at: number) => risingBytes(32, at, randomBytes).toString('hex')]) {
    const made = Array.from({ length: 100 }, (_, index) => make(now + index * 7, randomBytes))
    expect(made.toSorted()).toEqual(made)
  }
})

test('what was made in the same millisecond differs in all but the time', () => {
  const made = new Set(
    Array.from({ length: 1_000 }, () => risingBytes(32, now, randomBytes).subarray(6).toString('hex')),
  )
  expect(made.size).toBe(1_000)
  expect([...made].every((hex) => hex.length === 52)).toBe(true)
})

test('the UUID says its version and carries its time (RFC 9562)', () => {
  const id = risingUuid(now, randomBytes)
  expect(z.uuidv7().safeParse(id).success).toBe(true)
  expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBe(now)
})
