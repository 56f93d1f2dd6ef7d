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
  const one = limits({ atOncePerSite: 2, atOnce: 5 })
  const first = one.enter('a', false) as Hold
  one.enter('a', false)
  expect(one.enter('a', false)).toBe('each')
  for (const site of ['b', 'c', 'd']) one.enter(site, false)
  expect(one.enter('e', false)).toBe('all')
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  expect(one.enter('e', false)).toBeInstanceOf(Hold)
  expect(one.enter('f', false)).toBe('all')
})

test('T36 sites that take all they can get leave places and room to those that come later', () => {
  const one = limits()
  const sites = Array.from({ length: 64 }, (_, index) => `site ${index}`)
  for (let asked = 0; asked < publicLimits.atOncePerSite; asked++) {
    for (const site of sites) {
      one.enter(site, false)
      one.hold(site, 256 * 1024)
    }
  }
  expect(one.enter('later', false)).toBeInstanceOf(Hold)
  expect(one.hold('later', 256 * 1024)).toBeInstanceOf(Hold)
  // A site that has much already gets no more of it.
  expect(one.enter('site 0', false)).toBe('all')
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
  one.checkOf('a', true).refused()
  expect(one.enter('a', true)).toBeInstanceOf(Hold)
  expect(one.enter('a', true)).toBe('each')
})
