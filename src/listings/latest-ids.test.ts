import { expect, test } from 'vitest'
import { LatestIds } from './latest-ids.ts'

test('T29 the latest ids are found, removed ids are not, and an id that comes again is the latest', () => {
  const ids = new LatestIds()
  for (const id of ['a', 'b', 'c', 'd']) ids.add(id)
  expect(ids.latest(2)).toEqual(['c', 'd'])
  expect(ids.delete('d')).toBe(true)
  expect(ids.delete('d')).toBe(false)
  ids.add('a')
  expect(ids.latest(2)).toEqual(['c', 'a'])
  expect(ids.latest(9)).toEqual(['b', 'c', 'a'])
  expect(ids.size).toBe(3)
})

test('the order holds after most of a hundred thousand ids are removed', () => {
  const ids = new LatestIds()
  const all = Array.from({ length: 100_000 }, (_, n) => `listing ${n}`)
  for (const id of all) ids.add(id)
  for (const id of all.slice(10, -1)) ids.delete(id)
  expect(ids.latest(100)).toEqual([...all.slice(0, 10), all.at(-1)])
  expect(ids.delete('listing 99999')).toBe(true)
  ids.add('new')
  expect(ids.latest(2)).toEqual(['listing 9', 'new'])
  expect(ids.size).toBe(11)
})
