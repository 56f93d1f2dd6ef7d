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

test('drops the oldest whatever was deleted, set again or cleared meanwhile', () => {
  const map = new BoundedMap<number, number>(100)
  const model: number[] = []
  let random = 1
  for (let step = 0; step < 5_000; step++) {
    random = (random * 48_271) % 2_147_483_647
    const key = random % 150
    const at = model.indexOf(key)
    if (at >= 0) model.splice(at, 1)
    if (random % 7 === 0) map.delete(key)
    else if (random % 1_001 === 0) {
      map.clear()
      model.length = 0
    } else {
      map.set(key, step)
      model.push(key)
      if (model.length > 100) model.shift()
    }
    expect([...map.keys()]).toEqual(model)
  }
})
