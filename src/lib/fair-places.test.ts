import { expect, test } from 'vitest'
import { FairPlaces } from './fair-places.ts'

test('T31 holders take turns, so one with much work delays another by one piece of it', async () => {
  const places = new FairPlaces(1)
  const done: string[] = []
  const work = async (holder: string, name: string) => {
    using _place = await places.take(holder)
    done.push(name)
  }
  const many = Array.from({ length: 5 }, (_, index) => work('many', `many ${index}`))
  await Promise.all([...many, work('one', 'one'), work('other', 'other')])
  expect(done).toEqual(['many 0', 'many 1', 'one', 'other', 'many 2', 'many 3', 'many 4'])
})

test('as many go at once as there are places', async () => {
  const places = new FairPlaces(2)
  const [first] = await Promise.all([places.take('a'), places.take('a')])
  let isIn = false
  const third = places.take('b').then((place) => {
    isIn = true
    return place
  })
  await Promise.resolve()
  expect(isIn).toBe(false)
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  using _third = await third
  expect(isIn).toBe(true)
})
