import { expect, test } from 'vitest'
import { claim, exchangeOf, randomHex, reserved, signed } from '../../test/support/payments.ts'
import { Feed } from '../lib/feed.ts'
import { Meters } from '../lib/meters.ts'
import type { NodeEvents } from '../schema/events.ts'
import { openDatabase } from '../store/database.ts'
import { createPayments } from '../store/payments.ts'
import { createPurchases } from '../store/purchases.ts'
import { publishedPayments, publishedPurchases } from './ledger-events.ts'
import { meteredPurchases, meterNames } from './metered.ts'

test.each(['setTxHash', 'resolve', 'giveBack'] as const)('T20: whoever follows payments hears of %s', async (name) => {
  const stored = { ...createPurchases(openDatabase({ path: ':memory:' })), [name]: async () => 'order' }
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const meters = new Meters()
  const purchases = publishedPurchases(meteredPurchases(stored, meters), feed, () => undefined)
  const before = feed.last
  if (name === 'setTxHash') await purchases.setTxHash('0x1', '0x2', 0)
  else if (name === 'resolve') await purchases.resolve('0x1', 'released', undefined, 0)
  else await purchases.giveBack('0x1', 0)
  expect(feed.last).not.toBe(before)
  if (name === 'setTxHash') return
  expect(meters.counts(meterNames.payments)).toEqual([{ labels: { direction: 'out', state: 'released' }, value: 1 }])
})

const NOW = Date.UTC(2026, 0, 1)

/** A feed, and what it published since the last look. */
function listened() {
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const events: { type: string; data: unknown }[] = []
  feed.publish = (type, _key, read) => void events.push({ type, data: read() })
  return { feed, told: () => events.splice(0) }
}

test('T20 D45: the followers of a buyer hear of a refund, once', async () => {
  const database = openDatabase({ path: ':memory:' })
  const { feed, told } = listened()
  const purchases = publishedPurchases(createPurchases(database), feed, () => undefined)
  const { order, reservation } = reserved(signed(NOW), NOW)
  await purchases.reserve(order, reservation, { day: '2026-01-01', limits: () => ({}) })
  await purchases.finish(order, { paymentId: reservation.paymentId, amount: 10_000n, txHash: randomHex() })
  told()
  const refund = randomHex()
  expect(await purchases.paidBack(reservation.paymentId, refund, NOW)).toBe(order.id)
  expect(await purchases.paidBack(reservation.paymentId, randomHex(), NOW)).toBeUndefined()
  expect(told()).toMatchObject([
    { type: 'order', data: { payment: { book: 'refunded', refund_tx_hash: refund } } },
    { type: 'payment', data: { book: 'refunded', refund_tx_hash: refund } },
  ])
})

test('T20 D45: the followers of a seller hear of a refund, of an attempt moved forward, and of another transaction', async () => {
  const { feed, told } = listened()
  const payments = publishedPayments(createPayments(openDatabase({ path: ':memory:' })), feed, () => undefined)
  const [paid, late] = [claim(NOW), claim(NOW)]
  for (const one of [paid, late]) {
    await payments.claim(one, NOW)
    await payments.deliver({ id: one.id, state: 'owed', nextAttemptAt: NOW + 60_000 }, exchangeOf(one, NOW), NOW)
  }
  await payments.save({ id: paid.id, state: 'settled', txHash: randomHex() }, NOW)
  told()
  const [moved, refund] = [randomHex(), randomHex()]
  const expected = [
    { book: 'earned', tx_hash: moved },
    { book: 'refunded', refund_tx_hash: refund },
    { book: 'owed', next_attempt_at: '2026-01-01T00:00:00.000Z' },
  ]
  const changes = [
    () => payments.lookAgain(paid.id, undefined, moved),
    () => payments.paidBack(paid.id, refund, NOW),
    () => payments.hastenOne(late.id, NOW),
  ]
  for (const [index, change] of changes.entries()) {
    await change()
    expect(told()).toMatchObject([{ type: 'payment', data: expected[index] }])
  }
  await payments.lookAgain(paid.id, NOW, moved)
  expect(told()).toEqual([])
})
