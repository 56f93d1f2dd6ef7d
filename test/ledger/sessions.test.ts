import { expect, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { type Order, putOrder } from '../../src/store/order-row.ts'
import { run, together } from '../../src/store/query.ts'
import { createSessionStore } from '../../src/store/sessions.ts'
import { onBothEngines } from '../support/ledgers.ts'

const INSERT = `
  INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, output, created_at, duration_ms)
  VALUES (?, ?, 'c', ?, ?, ?, 5)`

let at = 0
async function said(database: LedgerDatabase, callerId: string, texts: readonly string[], agentId = 'a') {
  for (const text of texts) await database.commit(run(INSERT, agentId, callerId, text, text, ++at))
}

function order(id: string, changes: Partial<Order> = {}): Order {
  const times = { createdAt: ++at, updatedAt: at + 7 }
  const shared = { agentId: 'a', sellerId: 'seller', price: 1n, status: 'completed' as const, correlationId: id }
  return { id, ...shared, task: id, output: `re: ${id}`, error: undefined, ...times, ...changes }
}

onBothEngines((open) => {
  test('callers are found in the order of their code units, from any of them on', async () => {
    const database = await open()
    const store = createSessionStore(database)
    for (const caller of ['did:b', 'Zoe', 'did:a', 'zoe', 'ä']) await said(database, caller, ['1', '2'])
    await said(database, 'did:c', ['1'], 'other')
    expect(await store.callers('a', '', 9)).toEqual(['Zoe', 'did:a', 'did:b', 'zoe', 'ä'])
    expect(await store.callers('a', 'Zoe', 2)).toEqual(['did:a', 'did:b'])
    expect(await store.callers('a', 'ä', 2)).toEqual([])
    expect(await store.callers('nobody', '', 2)).toEqual([])
  })

  test('exchanges are paged back in time, and a page of long texts ends early', async () => {
    const database = await open()
    const store = createSessionStore(database)
    await said(database, 'x', ['1', '2', '3'])
    const first = await store.exchanges('a', 'x', { limit: 2 })
    expect(first.items.map(({ input }) => input)).toEqual(['2', '3'])
    const earlier = await store.exchanges('a', 'x', { limit: 2, cursor: first.next })
    expect([earlier.items.map(({ input }) => input), earlier.next]).toEqual([['1'], undefined])
    expect(await store.span('a', 'x')).toEqual({ createdAt: at - 2, updatedAt: at + 5 })
    expect(await store.span('a', 'nobody')).toBeUndefined()
    const long = 'x'.repeat(3_000_000)
    await said(database, 'long', [long, long])
    expect((await store.exchanges('a', 'long', { limit: 9 })).items).toHaveLength(1)
  })

  test('own exchanges are the orders that ran and ended, of one token or of all', async () => {
    const database = await open()
    const store = createSessionStore(database)
    const orders = [
      ...[order('one'), order('ann', { tokenId: 'ann' }), order('waits', { status: 'pending' })],
      order('never ran', { status: 'failed', output: undefined, correlationId: undefined }),
    ]
    await database.commit(together(...orders.map((order) => putOrder(order, database.process))))
    const idsOf = async (owner?: string) =>
      (await store.ownExchanges('a', { limit: 9 }, owner)).items.map(({ id }) => id)
    expect([await idsOf(), await idsOf('ann'), await idsOf('bob')]).toEqual([['one', 'ann'], ['ann'], []])
    const [one, ann] = orders
    expect(await store.ownSpan('a')).toEqual({ createdAt: one!.createdAt, updatedAt: ann!.updatedAt })
    expect(await store.ownSpan('a', 'bob')).toBeUndefined()
  })
})
