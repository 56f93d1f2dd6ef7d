import { expect, test } from 'vitest'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { Hold } from '../../lib/hold.ts'
import { PublicLimits, publicLimits } from './public-limits.ts'

const clock = new HandClock(1_000_000)
const limits = (changes: Partial<typeof publicLimits> = {}) =>
  new PublicLimits({ ...publicLimits, ...changes }, { clock })

test('T36 a site has a rate for requests without a payment, and another for those with one', () => {
  const one = limits({ asks: { burst: 2, perSecond: 1 }, payments: { burst: 1, perSecond: 1 }, atOncePerSite: 10 })
  const taken = [false, false, false, true, true].map((isPaid) => one.enter('a', isPaid) instanceof Hold)
  expect(taken).toEqual([true, true, false, true, false])
  expect(one.enter('b', false)).toBeInstanceOf(Hold)
  clock.advance(1_000)
  expect(one.enter('a', false)).toBeInstanceOf(Hold)
})

test('T36 requests at once are limited for a site and for all, and a request that ends makes room', () => {
  const one = limits({ atOncePerSite: 2, atOnce: 3 })
  const first = one.enter('a', false) as Hold
  one.enter('a', false)
  expect(one.enter('a', false)).toBe('each')
  one.enter('b', false)
  expect(one.enter('c', false)).toBe('all')
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  expect(one.enter('c', false)).toBeInstanceOf(Hold)
  expect(one.enter('d', false)).toBe('all')
})

test('T36 bodies take room before they are read, and one large body is let in where nothing else is', () => {
  const one = limits({ bytesPerSite: 100, bytes: 150 })
  const large = one.hold('a', 1_000) as Hold
  expect(one.hold('a', 1)).toBe('each')
  expect(one.hold('b', 1)).toBe('all')
  large[Symbol.dispose]()
  expect(one.hold('a', 100)).toBeInstanceOf(Hold)
  expect(one.hold('a', 1)).toBe('each')
  expect(one.hold('b', 50)).toBeInstanceOf(Hold)
  expect(one.hold('c', 1)).toBe('all')
})

test('T36 a payment that is of no use costs its site ten more', () => {
  const one = limits({ payments: { burst: 12, perSecond: 1 } })
  one.enter('a', true)
  one.blame('a')
  expect(one.enter('a', true)).toBeInstanceOf(Hold)
  expect(one.enter('a', true)).toBe('each')
})
