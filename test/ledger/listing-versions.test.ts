import { expect, test } from 'vitest'
import { createListingVersions } from '../../src/store/listing-versions.ts'
import { onBothEngines } from '../support/ledgers.ts'

onBothEngines((open, openTwo) => {
  test('a version is taken once, and each later one is higher', async () => {
    const versions = createListingVersions(await open())
    expect(await versions.take('a', 1000)).toBe(1000)
    expect(await versions.take('a', 1000)).toBe(1001)
    expect(await versions.take('a', 5)).toBe(1002)
    expect(await versions.take('b', 5)).toBe(5)
    expect(await versions.take('a', 2000)).toBe(2000)
  })

  test('what is later than every version on the ledger was signed elsewhere', async () => {
    const versions = createListingVersions(await open())
    expect(await versions.isTaken('a', 1)).toBe(false)
    await versions.take('a', 1000)
    expect(await versions.isTaken('a', 1000)).toBe(true)
    expect(await versions.isTaken('a', 999)).toBe(true)
    expect(await versions.isTaken('a', 1001)).toBe(false)
  })

  test('two processes that sign at the same instant take different versions', async () => {
    const both = (await openTwo()).map(createListingVersions)
    const now = 1_700_000_000_000
    const taken = await Promise.all(Array.from({ length: 20 }, (_, at) => both[at % 2]!.take('a', now)))
    expect(new Set(taken).size).toBe(20)
    expect(Math.max(...taken)).toBe(now + 19)
    expect(await both[0]!.isTaken('a', now + 19)).toBe(true)
  })
})
