import { expect, test } from 'vitest'
import { BoundedMap } from './bounded-map.ts'

test('drops the oldest entry beyond the maximum', () => {
  const map = new BoundedMap<string, number>(2).set('a', 1).set('b', 2).set('c', 3)
  expect([...map]).toEqual([
    ['b', 2],
    ['c', 3],
  ])
})

test('makes an entry that is set again the newest, and reading it does not', () => {
  const map = new BoundedMap<string, number>(2).set('a', 1).set('b', 2).set('a', 3)
  map.get('b')
  map.set('c', 4)
  expect([...map.keys()]).toEqual(['a', 'c'])
})
