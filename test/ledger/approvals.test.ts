import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createApprovalStore, type StoredApproval } from '../../src/store/approvals.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { type Order, type OrderRow, toOrder } from '../../src/store/order-row.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { one } from '../../src/store/query.ts'
import { standingOf } from '../../src/store/reserve.ts'
import { onBothEngines } from '../support/ledgers.ts'

const now = Date.UTC(2026, 0, 1)
const LIMITS = { all: 100, perToken: 100 }

function order(changes: Partial<Order> = {}): Order {
  const blank = { output: undefined, error: undefined, correlationId: undefined }
  const what = {
    id: randomUUID(),
    agentId: 'a',
    sellerId: 'seller',
    price: 7n,
    status: 'pending' as const,
    task: 'task',
  }
  return { ...what, ...blank, createdAt: now, updatedAt: now, ...changes }
}
function approvalOf({ id: orderId, agentId, task, tokenId }: Order, changes: Partial<StoredApproval> = {}) {
  const what = { agentName: 'Agent', sellerId: 'seller', amount: 7n, workflowId: undefined, reason: 'dear' }
  const when = { status: 'pending' as const, createdAt: now, expiresAt: now + 1_000 }
  return { id: randomUUID(), orderId, agentId, task, tokenId, ...what, ...when, ...changes }
}
async function asked(database: LedgerDatabase, wanted: Order, changes: Partial<StoredApproval> = {}) {
  const approval = await createApprovalStore(database).ask(wanted, approvalOf(wanted, changes), LIMITS)
  if (typeof approval === 'string') throw new Error(approval)
  return approval
}
async function orderNamed(database: LedgerDatabase, id: string): Promise<Order> {
  return toOrder((await database.query(one<OrderRow>('SELECT * FROM orders WHERE id = ?', id)))!)
}

onBothEngines((open, openTwo) => {
  test('an approval reads back with its order', async () => {
    const database = await open()
    const wanted = order({ tokenId: 't' })
    const approval = await asked(database, wanted)
    const store = createApprovalStore(database)
    expect(await store.get(approval.id)).toEqual(approval)
    expect(await store.list({ status: 'pending', ownerId: 't' }, 9)).toEqual([approval])
    expect(await store.list({ ownerId: 'u' }, 9)).toEqual([])
    expect((await orderNamed(database, wanted.id)).approvalId).toBe(approval.id)
  })

  test('D33 the same purchase asks the operator once, whatever process takes its requests', async () => {
    const [first, second] = await openTwo()
    const tokens = [undefined, 't']
    for (const tokenId of tokens) {
      const held = await Promise.all(
        Array.from({ length: 6 }, (_, index) => asked(index % 2 === 0 ? first : second, order({ tokenId }))),
      )
      expect(new Set(held.map(({ id }) => id)).size).toBe(1)
    }
    expect(await createApprovalStore(first).list({ status: 'pending' }, 9)).toHaveLength(2)
  })

  test('D33 another task, price, token, workflow or run asks for itself', async () => {
    const database = await open()
    const whole = order()
    const boughtFor = { agentId: 'front', agentName: 'Front', run: 'run' }
    const held = [
      await asked(database, whole),
      await asked(database, order({ task: 'another' })),
      await asked(database, order(), { amount: 8n }),
      await asked(database, order({ tokenId: 't' })),
      await asked(database, order({ boughtFor })),
    ]
    expect(new Set(held.map(({ id }) => id)).size).toBe(5)
    // An order that waits for its approval asks for no second one.
    expect((await asked(database, whole)).id).toBe(held[0]!.id)
  })

  test('T19 open approvals never exceed their number, in all and per token', async () => {
    const writers = (await openTwo()).map(createApprovalStore)
    const ask = (index: number, limits: { all: number; perToken: number }, tokenId?: string) => {
      const wanted = order({ task: randomUUID(), tokenId })
      return writers[index % 2]!.ask(wanted, approvalOf(wanted), limits)
    }
    const own = await Promise.all(Array.from({ length: 8 }, (_, index) => ask(index, { all: 9, perToken: 3 }, 't')))
    expect(own.filter((outcome) => outcome === 'share')).toHaveLength(5)
    const others = await Promise.all(Array.from({ length: 8 }, (_, index) => ask(index, { all: 5, perToken: 9 })))
    expect(others.filter((outcome) => outcome === 'full')).toHaveLength(6)
  })

  test('of two decisions at one instant one counts', async () => {
    const writers = await openTwo()
    for (let round = 0; round < 5; round += 1) {
      const wanted = order({ task: `${round}` })
      const { id } = await asked(writers[0], wanted)
      const [approved, denied] = await Promise.all([
        createApprovalStore(writers[0]).decide(id, 'approved', now),
        createApprovalStore(writers[1]).decide(id, 'denied', now),
      ])
      expect([approved!.decided, denied!.decided].toSorted()).toEqual([false, true])
      const isApproved = approved!.decided
      expect((await createApprovalStore(writers[0]).get(id))?.status).toBe(isApproved ? 'approved' : 'denied')
      const { status, error } = await orderNamed(writers[1], wanted.id)
      expect([status, error?.code]).toEqual(isApproved ? ['pending', undefined] : ['failed', 'APPROVAL_DENIED'])
      expect((await writers[0].query(standingOf(wanted))).approved).toBe(isApproved ? 7n : undefined)
    }
  })

  test('nothing is decided after its time or once its order has ended', async () => {
    const database = await open()
    const store = createApprovalStore(database)
    const late = await asked(database, order())
    expect(await store.decide(late.id, 'approved', now + 1_000)).toMatchObject({ decided: false })
    const canceled = order({ task: 'canceled' })
    const { id } = await asked(database, canceled)
    await createOrderStore(database).cancel(canceled.id, now)
    expect(await store.decide(id, 'approved', now)).toMatchObject({ decided: false, approval: { status: 'pending' } })
    expect(await store.decide('nobody', 'approved', now)).toBeUndefined()
  })

  test('an approval expires once, with its order, whatever process looks', async () => {
    const writers = await openTwo()
    const [late, canceled, open] = [order({ task: '1' }), order({ task: '2' }), order({ task: '3' })]
    const overdue = await asked(writers[0], late)
    const dropped = await asked(writers[0], canceled, { expiresAt: now + 9_000 })
    await asked(writers[0], open, { expiresAt: now + 9_000 })
    await createOrderStore(writers[0]).cancel(canceled.id, now)
    const expired = await Promise.all(writers.map((database) => createApprovalStore(database).expire(now + 1_000)))
    expect(
      expired
        .flat()
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual([overdue.id, dropped.id].toSorted())
    expect(expired.flat().map(({ status }) => status)).toEqual(['expired', 'expired'])
    expect(await orderNamed(writers[0], late.id)).toMatchObject({
      status: 'failed',
      error: { code: 'APPROVAL_EXPIRED' },
    })
    expect((await orderNamed(writers[0], canceled.id)).status).toBe('cancelled')
    expect(await createApprovalStore(writers[0]).expire(now + 1_000)).toEqual([])
  })
})
