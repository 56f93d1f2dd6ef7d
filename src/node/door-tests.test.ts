import { expect, test } from 'vitest'
import type { DoorTest } from '../schema/doors.ts'
import { findingsOf } from './door-tests.ts'

const at = (url: string, more: Partial<DoorTest> = {}): DoorTest => ({
  ...{ door: 'http', from: 'here', url, state: 'warn', text: 'is not outside', fix: 'use a proxy' },
  ...more,
})
const report = (tests: DoorTest[]) => findingsOf({ at: '2026-01-01T00:00:00.000Z', tests })

test('the doctor tells one address for each fix, and how many more need it', () => {
  const asked = at('f', { from: 'peers', state: 'skip', text: 'not asked' })
  delete asked.fix
  const found = report([at('a'), at('b'), at('c', { state: 'fail' }), at('d', { fix: 'renew' }), at('e'), asked])
  expect(found).toEqual([
    { state: 'warn', text: 'a: is not outside; 2 more with the same fix: stoa doors --test', fix: 'use a proxy' },
    { state: 'fail', text: 'c: is not outside', fix: 'use a proxy' },
    { state: 'warn', text: 'd: is not outside', fix: 'renew' },
    { state: 'skip', text: 'f from outside: not asked' },
  ])
})
