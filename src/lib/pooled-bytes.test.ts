import { expect, test } from 'vitest'
import { pooledBytes } from './pooled-bytes.ts'

test('gives each byte once, and asks for more when a pool is used up', () => {
  const asked: number[] = []
  let next = 0
  const give = pooledBytes((length) => {
    asked.push(length)
    return Uint8Array.from({ length }, () => next++ % 251)
  })
  const given = Array.from({ length: 500 }, () => [...give(10)])
  // The six bytes that a pool has left are not given.
  expect(asked).toEqual([4096, 4096])
  expect(given.every((bytes) => bytes.length === 10)).toBe(true)
  const inPool = Math.floor(4096 / 10)
  expect(given.slice(0, inPool).flat()).toEqual(Array.from({ length: inPool * 10 }, (_, at) => at % 251))
  expect(give(10_000)).toHaveLength(10_000)
})
