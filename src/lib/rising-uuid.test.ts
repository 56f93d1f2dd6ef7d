import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { risingUuid } from './rising-uuid.ts'

const now = Date.UTC(2026, 10, 21)

test('what was made later sorts behind', () => {
  const made = Array.from({ length: 100 }, (_, index) => risingUuid(now + index * 7, randomBytes))
  expect(made.toSorted()).toEqual(made)
})

test('what was made in the same millisecond differs', () => {
  expect(new Set(Array.from({ length: 1_000 }, () => risingUuid(now, randomBytes))).size).toBe(1_000)
})

test('it says its version and carries its time (RFC 9562)', () => {
  const id = risingUuid(now, randomBytes)
  expect(z.uuidv7().safeParse(id).success).toBe(true)
  expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBe(now)
})
