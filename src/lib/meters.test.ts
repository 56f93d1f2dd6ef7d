import { expect, test } from 'vitest'
import { Meters } from './meters.ts'

test('counts what carries the same labels together', () => {
  const meters = new Meters()
  meters.count('a', { x: '1' })
  meters.count('a', { x: '2' }, 3)
  meters.count('a', { x: '1' })
  expect(meters.counts('a')).toEqual([
    { labels: { x: '1' }, value: 2 },
    { labels: { x: '2' }, value: 3 },
  ])
  expect(meters.counts('b')).toEqual([])
})

test('a histogram counts what is at most each bound, and all of it at the end', () => {
  const meters = new Meters()
  for (const seconds of [0.01, 0.02, 7, 5_000]) meters.observe('a', seconds)
  const { bounds, counts, sum } = meters.histogram('a')
  const upTo = (bound: number) => counts[bounds.indexOf(bound)]
  expect([upTo(0.01), upTo(0.025), upTo(5), upTo(10), upTo(3600)]).toEqual([1, 2, 2, 3, 3])
  expect(counts.at(-1)).toBe(4)
  expect(counts).toHaveLength(bounds.length + 1)
  expect(sum).toBeCloseTo(5_007.03)
  expect(meters.histogram('b').counts.at(-1)).toBe(0)
})

test('T19 series do not grow without end', () => {
  const meters = new Meters()
  for (let n = 0; n < 5_000; n++) meters.count('a', { n: String(n) })
  expect(meters.counts('a')).toHaveLength(1_000)
})
