import { expect, test } from 'vitest'
import { heldByAuthorizations } from '../../src/store/held.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, randomHex, requirements, signed, usdc } from '../support/payments.ts'

const NOW = Date.UTC(2026, 0, 1)
const HOUR_MS = 60 * 60 * 1000

onBothEngines((open) => {
  test('D42 T16 what is signed for is held until it is known what became of it, whatever the wall clock says', async () => {
    const database = await open()
    const purchases = createPurchases(database)
    const { paymentId, envelope } = signed(NOW)
    const blank = { output: undefined, error: undefined, correlationId: 'c', createdAt: NOW, updatedAt: NOW }
    const order = { id: 'o', agentId, sellerId: 's', price: 10_000n, status: 'executing' as const, task: 't', ...blank }
    const validBeforeSeconds = Number(envelope.payload!.authorization.validBefore)
    const asked = { requirements: requirements(), envelope, amount: 10_000n, validBeforeSeconds }
    const reservation = { paymentId, orderId: 'o', agentId, sellerId: 's', ...asked }
    await purchases.reserve(order, reservation, { day: '2026-01-01', limits: () => ({}) })
    expect([
      await heldByAuthorizations(database, usdc.network),
      await heldByAuthorizations(database, 'eip155:8453'),
    ]).toEqual([10_000n, 0n])
    await purchases.finish({ ...order, status: 'completed' }, { paymentId, amount: 10_000n, txHash: randomHex() })
    expect(await heldByAuthorizations(database, usdc.network)).toBe(10_000n)
    const sums = { day: 10_000n, month: 10_000n }
    expect(await purchases.spendingOn('2026-01-01')).toEqual({ spent: sums, held: sums })
    expect((await purchases.spendingOn('2026-01-02')).held).toEqual({ day: 0n, month: 10_000n })
    await purchases.giveBack(reservation, NOW + 100 * HOUR_MS)
    expect(await heldByAuthorizations(database, usdc.network)).toBe(0n)
  })
})
