import { expect, test } from 'vitest'
import { createWorkerStore, type StoredWorker } from '../../src/store/workers.ts'
import { onBothEngines } from '../support/ledgers.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const worker = (id: string, changes: Partial<StoredWorker> = {}): StoredWorker => ({
  ...{ id, name: `the ${id}`, hash: new Uint8Array(32).fill(7), createdAt: 1_000, expiresAt: 2_000 },
  ...{ peerId: undefined, seenAt: undefined, revokedAt: undefined },
  ...changes,
})

onBothEngines((open, openTwo) => {
  test('a worker is kept as it was added, and found by its id', async () => {
    const store = createWorkerStore(await open())
    expect(await store.add(worker('a'), 10)).toBe(true)
    expect(await store.get('a')).toMatchObject(worker('a'))
    expect(await store.get('b')).toBeUndefined()
    await store.noteSeen('a', 1_500)
    expect(await store.list()).toMatchObject([worker('a', { seenAt: 1_500 })])
  })

  test('T34 of two keys that use a token at the same instant one owns it', async () => {
    const [first, second] = (await openTwo()).map(createWorkerStore)
    await first!.add(worker('a'), 10)
    const bound = await Promise.all([first!.bind('a', 'one', 1_500), second!.bind('a', 'two', 1_500)])
    const owner = (await first!.get('a'))!.peerId
    expect(bound.map((row) => row!.peerId)).toEqual([owner, owner])
    expect(['one', 'two']).toContain(owner)
  })

  test('a token that is late or revoked is given to nobody', async () => {
    const store = createWorkerStore(await open())
    await store.add(worker('late'), 10)
    await store.add(worker('revoked'), 10)
    expect(await store.revoke('revoked', 1_200)).toMatchObject({ revokedAt: 1_200 })
    expect(await store.revoke('revoked', 1_300)).toMatchObject({ revokedAt: 1_200 })
    expect(await store.bind('late', 'one', 2_000)).toMatchObject({ peerId: undefined })
    expect(await store.bind('revoked', 'one', 1_500)).toMatchObject({ peerId: undefined })
    expect(await store.revoke('unknown', 1_500)).toBeUndefined()
  })

  test('workers and open invitations are bounded, for two writers together; old ones leave the list', async () => {
    const [first, second] = (await openTwo()).map(createWorkerStore)
    const added = await Promise.all([
      ...['a', 'b', 'c'].map((id) => first!.add(worker(id), 4)),
      ...['d', 'e', 'f'].map((id) => second!.add(worker(id), 4)),
    ])
    expect(added.filter(Boolean)).toHaveLength(4)
    const later = { createdAt: 3_000, expiresAt: 4_000 }
    expect(await first!.add(worker('g', later), 1)).toBe(true)
    const month = { createdAt: 2_001 + 30 * DAY_MS, expiresAt: 3_001 + 30 * DAY_MS }
    expect(await first!.add(worker('h', month), 10)).toBe(true)
    expect((await first!.list()).map(({ id }) => id)).toEqual(['h', 'g'])
  })
})
