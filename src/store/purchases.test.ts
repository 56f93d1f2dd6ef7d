import { expect, onTestFinished, test } from 'vitest'
import { randomHex, reserved, signed } from '../../test/support/payments.ts'
import { openDatabase } from './database.ts'
import { createPurchases } from './purchases.ts'
import type { Query } from './query.ts'
import { runOnSqlite } from './sqlite-query.ts'

const now = Date.UTC(2026, 0, 1)
const error = { code: 'SELLER_FAILED', message: 'it was charged after all', retryable: false }

test('a change of one purchase reads no other, however many there are', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const asked = new Set<string>()
  const prepare = (sql: string) => {
    asked.add(sql)
    return database.prepare(sql)
  }
  const commit = async <T>(change: Query<T>) => runOnSqlite(prepare, change)
  const purchases = createPurchases({ ...database, commit })
  const { order, reservation } = reserved(signed(now), now)
  const { paymentId, amount } = reservation
  await purchases.reserve(order, reservation, { day: '2026-01-01', limits: () => ({}) })
  await purchases.resolve(reservation, 'released', undefined, now)
  await purchases.lookAt(reservation, now)
  await purchases.takeBack({ orderId: order.id, txHash: randomHex(), error }, now)
  await purchases.unconfirm(reservation, now)
  await purchases.giveBack(reservation, now)
  await purchases.finish({ ...order, status: 'completed' }, { paymentId, amount, txHash: undefined })
  await purchases.setTxHash(reservation, randomHex(), now)
  await purchases.confirm(reservation, randomHex(), now)
  await purchases.resolve(reservation, 'spent', undefined, now)
  await purchases.resolve(reservation, 'spent', randomHex(), now)
  await purchases.stopAsking(reservation)
  await purchases.paidBack(reservation, randomHex(), now)
  const scans = [...asked].flatMap((sql) => {
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]
    return plan.map(({ detail }) => detail).filter((detail) => /^SCAN (?!CONSTANT ROW|asked|revisions)/.test(detail))
  })
  expect(scans).toEqual([])
  expect(await purchases.reservationOf(order.id)).toMatchObject({ state: 'spent', refundTx: expect.anything() })
})
