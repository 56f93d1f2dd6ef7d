import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createTurns } from './turns.ts'

test('a few begin in each turn of the loop, in the order they came', async () => {
  const turn = createTurns(3)
  const begun: number[] = []
  const all = Promise.all(Array.from({ length: 20 }, (_, index) => turn().then(() => begun.push(index))))
  await Promise.resolve()
  const seen = [begun.length]
  while (begun.length < 20) {
    await turnOfTheLoop()
    seen.push(begun.length)
  }
  await all
  expect(begun).toEqual(Array.from({ length: 20 }, (_, index) => index))
  expect(seen.map((count, index) => count - (seen[index - 1] ?? 0))).toEqual([3, 3, 3, 3, 3, 3, 2])
})

test('whoever comes later waits behind those who wait', async () => {
  const turn = createTurns(1)
  const begun: string[] = []
  const enter = (name: string) => turn().then(() => begun.push(name))
  const first = [enter('a'), enter('b'), enter('c')]
  await first[0]
  const late = enter('d')
  await Promise.all([...first, late])
  expect(begun).toEqual(['a', 'b', 'c', 'd'])
})

test('alone, work begins at once: before the loop turns', async () => {
  const turn = createTurns(1)
  for (let round = 0; round < 3; round++) {
    let turned = false
    const next = turnOfTheLoop().then(() => {
      turned = true
    })
    await turn()
    expect(turned).toBe(false)
    // Its count ends with the turn it was in.
    await next
    await turnOfTheLoop()
  }
})
