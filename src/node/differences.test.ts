import { expect, test } from 'vitest'
import type { LedgerProcess } from '../store/postgres/processes.ts'
import { differencesAmong, differencesOf, hashOf } from './differences.ts'

test('the same settings have one hash in whatever order they are written, and amounts count', () => {
  expect(hashOf({ a: 1n, b: { c: 2, d: [1, 2] } })).toBe(hashOf({ b: { d: [1, 2], c: 2 }, a: 1n }))
  expect(hashOf({ price: 1n })).not.toBe(hashOf({ price: 2n }))
})

test('what differs is named, with a mark that all processes agree on and that news change', () => {
  const one = { definitions: { Echo: 'x', Same: 's' }, budget: 'a' }
  const other = { definitions: { Echo: 'y', Same: 's', More: 'm' }, budget: 'b' }
  expect(differencesOf([one, one])).toBeUndefined()
  expect(differencesOf([one, undefined, {}])).toBeUndefined()
  const found = differencesOf([one, other])
  expect(found).toMatchObject({ agents: ['Echo', 'More'], budget: true })
  expect(differencesOf([other, one])).toEqual(found)
  expect(differencesOf([one, { ...other, definitions: { ...other.definitions, Echo: 'z' } }])?.mark).not.toBe(
    found?.mark,
  )
})

test('a process that starts or stops is not compared', () => {
  const process = (Echo: string, { upMs = 60_000, isDraining = false } = {}): LedgerProcess => {
    const plain = { version: '1', addresses: [], agents: [], running: 0, aheadMs: 0 }
    const report = { ...plain, isDraining, definitions: { Echo } }
    return { id: Echo, place: Echo, upMs, leaseMs: 1, silentMs: 0, report }
  }
  expect(
    differencesAmong([process('x'), process('y', { upMs: 1_000 }), process('z', { isDraining: true })]),
  ).toBeUndefined()
  expect(differencesAmong([process('x'), process('y')])).toMatchObject({ agents: ['Echo'], budget: false })
})
