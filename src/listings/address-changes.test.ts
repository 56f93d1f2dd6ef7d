import { expect, test } from 'vitest'
import { AddressChanges } from './address-changes.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Looks every 3 s at a listing that has other addresses. @returns how often it is signed */
function signedWithin(
  ms: number,
  ids: readonly string[],
  view: (now: number) => string[],
  isOverwritten = false,
): number {
  const changes = new AddressChanges()
  const listed = new Map<string, string>()
  let signed = 0
  for (const id of ids) changes.note(id, ['first'], 0, true)
  for (let now = 0; now < ms; now += 3_000) {
    for (const id of ids) {
      const addresses = view(now)
      if (listed.get(id) === addresses.join() || !changes.isDue(id, addresses, now)) continue
      changes.note(id, addresses, now, true)
      signed += 1
      if (!isOverwritten) listed.set(id, addresses.join())
    }
  }
  return signed
}

test('the first changes of addresses are followed at once', () => {
  const changes = new AddressChanges()
  changes.note('a', ['first'], 0, true)
  for (const next of ['b', 'c', 'd', 'e']) {
    expect(changes.isDue('a', [next], 0)).toBe(true)
    changes.note('a', [next], 0, true)
  }
})

test('T31 a relay with new addresses every 30 s does not use up what others take of a seller', () => {
  const flapping = (now: number) => [`at ${Math.floor(now / 30_000)}`]
  const agents = Array.from({ length: 64 }, (_, at) => `agent ${at}`)
  // Others take 256 at once and one every 2 s.
  expect(signedWithin(10 * MINUTE, agents, flapping)).toBeLessThanOrEqual(128 + 150)
  expect(signedWithin(HOUR, ['a'], flapping)).toBeLessThanOrEqual(8 + 12)
})

test('a listing that another process signs otherwise is corrected after ever longer waits', () => {
  expect(signedWithin(HOUR, ['a'], () => ['first'], true)).toBe(5)
  expect(signedWithin(24 * HOUR, ['a'], () => ['first'], true)).toBeLessThanOrEqual(12)
})

test('a clock that was set back does not stop a correction', () => {
  const changes = new AddressChanges()
  changes.note('a', ['first'], HOUR, true)
  expect(changes.isDue('a', ['first'], HOUR)).toBe(false)
  expect(changes.isDue('a', ['first'], 0)).toBe(false)
  expect(changes.isDue('a', ['first'], MINUTE)).toBe(true)
})
