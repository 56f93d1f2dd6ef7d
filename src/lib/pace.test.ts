import { expect, test } from 'vitest'
import { Pace } from './pace.ts'

/** A pace whose time goes on only where a piece of work says so. */
function paced(sliceMs = 4) {
  let ms = 0
  const pace = new Pace({ sliceMs, now: () => ms })
  const done: string[] = []
  const work =
    (name: string, tookMs = 1) =>
    () => {
      ms += tookMs
      done.push(name)
      return name
    }
  return { pace, done, work }
}

test('T32 there is a turn of the event loop after each slice of work', async () => {
  const { pace, done, work } = paced()
  const all = Array.from({ length: 10 }, (_, n) => pace.run('a', work(`${n}`)))
  expect(done).toHaveLength(4)
  const seen: number[] = []
  for (let turn = 0; turn < 3; turn++) {
    await new Promise(setImmediate)
    seen.push(done.length)
  }
  expect(seen).toEqual([8, 10, 10])
  expect(await Promise.all(all)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
})

test('T32 while calls come in the event loop is left to them for longer than the work has taken', async () => {
  const { pace, done, work } = paced()
  pace.noteCall()
  const all = Array.from({ length: 5 }, (_, n) => pace.run('a', work(`${n}`, 4)))
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
  expect(done).toHaveLength(1)
  await Promise.all(all)
  expect(done).toHaveLength(5)
})

test('T29 one party’s much work does not hold up another’s little', async () => {
  const { pace, done, work } = paced(1)
  const flood = Array.from({ length: 20 }, (_, n) => pace.run('flooder', work(`junk ${n}`)))
  await pace.run('seller', work('news'))
  expect(done.indexOf('news')).toBeLessThan(4)
  await Promise.all(flood)
  expect(done).toHaveLength(21)
})

test('what fails fails alone', async () => {
  const { pace, done, work } = paced(1)
  const fails = pace.run('a', () => {
    work('bad')()
    throw new Error('no')
  })
  const next = pace.run('a', work('next'))
  await expect(fails).rejects.toThrow('no')
  expect(await next).toBe('next')
  expect(done).toEqual(['bad', 'next'])
})

test('what is done later counts too', async () => {
  const { pace, done, work } = paced()
  const wrote = pace.count('store', async () => {
    await new Promise(setImmediate)
    return 100
  })
  await wrote
  const waits = pace.run('a', work('after'))
  expect(done).toEqual([])
  await waits
  expect(done).toEqual(['after'])
})
