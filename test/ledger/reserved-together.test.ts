/** What the ledger knows of some of many orders that are reserved in one turn. */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createApprovalStore } from '../../src/store/approvals.ts'
import { putOrder } from '../../src/store/order-row.ts'
import { createPurchases, type Order, type Reservation } from '../../src/store/purchases.ts'
import type { Standing } from '../../src/store/reserve.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, randomHex, requirements, signed } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 31, 12)
const day = '2026-01-31'
const { envelope } = signed(now)
const parties = { agentId, sellerId: 'a' }

function newOrder(): Order {
  const blank = { task: 'x', output: undefined, error: undefined, createdAt: now, updatedAt: now, tokenId: undefined }
  return { id: randomUUID(), ...parties, price: 1n, status: 'executing', correlationId: randomUUID(), ...blank }
}

function reservationOf({ id: orderId }: Order, paymentId = randomHex()): Reservation {
  const terms = { amount: 1n, validBeforeSeconds: 1, requirements: requirements({ amount: 1n }), envelope }
  return { paymentId, orderId, ...parties, ...terms }
}

onBothEngines((open) => {
  test('an order that is approved, ended or bought already is known as such among new ones', async () => {
    const database = await open()
    const purchases = createPurchases(database)
    const approvals = createApprovalStore(database)
    const [approved, ended, bought, fresh, refused] = [newOrder(), newOrder(), newOrder(), newOrder(), newOrder()]
    const approval = {
      id: randomUUID(),
      orderId: approved.id,
      agentId,
      agentName: 'a',
      sellerId: 'a',
      amount: 1n,
      task: 'x',
    }
    const waits = { tokenId: undefined, workflowId: undefined, reason: 'asked', status: 'pending' as const }
    const limits = { all: 10, perToken: 10 }
    await approvals.ask(
      { ...approved, status: 'pending' },
      { ...approval, ...waits, createdAt: now, expiresAt: now + 60_000 },
      limits,
    )
    await approvals.decide(approval.id, 'approved', now)
    await database.commit(putOrder({ ...ended, status: 'cancelled' }, database.process))
    const own = reservationOf(bought)
    await purchases.reserve(bought, own, { day, limits: () => ({}) })

    const needsApproval = new Set([approved.id, refused.id])
    const reserve = (order: Order, reservation = reservationOf(order)) => {
      const approve = ({ approved: most }: Standing) => {
        if (needsApproval.has(order.id) && most === undefined) throw new Error('needs an approval')
      }
      return purchases.reserve(order, reservation, { day, limits: () => ({}), approve })
    }
    const outcomesOf = async (asked: readonly Promise<unknown>[]) =>
      (await Promise.allSettled(asked)).map((one) => (one.status === 'fulfilled' ? one.value : String(one.reason)))
    expect(await outcomesOf([reserve(approved), reserve(fresh), reserve(refused)])).toEqual([
      ...['reserved', 'reserved', 'Error: needs an approval'],
    ])
    expect(await outcomesOf([reserve(ended), reserve(bought), reserve(newOrder())])).toEqual([
      'ended',
      'again',
      'reserved',
    ])
    expect(await outcomesOf([reserve(bought, own), reserve(newOrder())])).toEqual(['reserved', 'reserved'])
    expect(await purchases.spentOn(day)).toBe(5n)
  })
})
