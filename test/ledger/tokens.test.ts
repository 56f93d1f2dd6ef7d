import { expect, test } from 'vitest'
import { run } from '../../src/store/query.ts'
import { createTokenStore, type StoredToken } from '../../src/store/tokens.ts'
import { onBothEngines } from '../support/ledgers.ts'

const now = Date.UTC(2026, 0, 1)
const DAY = '2026-01-01'
const token = (id: string, changes: Partial<StoredToken> = {}): StoredToken => ({
  ...{ id, name: `token ${id}`, scope: 'spend', hash: Buffer.alloc(32, id), budget: 5n, perDay: undefined },
  ...{ createdAt: now, expiresAt: undefined, revokedAt: undefined },
  ...changes,
})
const spend = (period: string, scope: string, amount: bigint) =>
  run('INSERT INTO spending (period, scope, amount) VALUES (?, ?, ?)', period, scope, amount)

onBothEngines((open, openTwo) => {
  test('a token reads back as it was added, with what it spent', async () => {
    const database = await open()
    const tokens = createTokenStore(database)
    const [a, b] = [token('a'), token('b', { budget: undefined, perDay: 2n ** 50n, expiresAt: now + 1 })]
    expect([await tokens.add(a, 9), await tokens.add(b, 9)]).toEqual([true, true])
    for (const [period, amount] of [
      ['', 7n],
      [DAY, 3n],
      ['2026-01-02', 4n],
    ] as const)
      await database.commit(spend(period, 'token a', amount))
    expect(await tokens.list(DAY)).toEqual([
      { token: { ...b, hash: expect.anything() }, total: 0n, today: 0n },
      { token: { ...a, hash: expect.anything() }, total: 7n, today: 3n },
    ])
    expect(Buffer.compare((await tokens.get('a'))!.hash, a.hash)).toBe(0)
    expect(await tokens.spending('a', '2026-01-03')).toMatchObject({ total: 7n, today: 0n })
    expect([await tokens.get('c'), await tokens.spending('c', DAY)]).toEqual([undefined, undefined])
  })

  test('a token is revoked once', async () => {
    const [one, two] = await openTwo()
    await createTokenStore(one).add(token('a'), 9)
    const revoked = await Promise.all([one, two].map((database) => createTokenStore(database).revoke('a', now)))
    expect(revoked.toSorted()).toEqual([false, true])
    expect((await createTokenStore(two).get('a'))?.revokedAt).toBe(now)
  })

  test('T19 tokens never exceed their number, whatever process adds them', async () => {
    const writers = (await openTwo()).map(createTokenStore)
    const added = await Promise.all(
      Array.from({ length: 12 }, (_, index) => writers[index % 2]!.add(token(`t${index}`), 5)),
    )
    expect(added.filter((isAdded) => isAdded)).toHaveLength(5)
    expect(await writers[0]!.list(DAY)).toHaveLength(5)
  })
})
