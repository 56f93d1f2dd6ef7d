import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { claim, exchangeOf, randomHex, reserved, signed } from '../../test/support/payments.ts'
import { callOf, channelOf } from '../../test/support/seller-channels.ts'
import { Feed } from '../lib/feed.ts'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { Meters } from '../lib/meters.ts'
import type { NodeEvents } from '../schema/events.ts'
import { PaymentRecord } from '../schema/payment-record.ts'
import { openDatabase } from '../store/database.ts'
import { createLedger, type LedgerRecords, openRecords } from './ledger.ts'
import { ledgerFeed } from './ledger-feed.ts'
import { ledgerMeters, meterNames } from './ledger-meters.ts'

const openStored = () => openRecords(openDatabase({ path: ':memory:' }), { hasChain: true })
const ledgerOf = (records: LedgerRecords, logger: Logger = silentLogger) =>
  createLedger(records, { logger, namesOf: () => undefined })
const clock = new HandClock()

test.each(['setTxHash', 'resolve', 'giveBack'] as const)('T20: whoever follows payments hears of %s', async (name) => {
  const stored = openStored()
  const ledger = ledgerOf({ ...stored, purchases: { ...stored.purchases, [name]: async () => 'order' } })
  const { purchases } = ledger
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const meters = new Meters()
  ledger.listen(ledgerMeters(meters, clock))
  ledger.listen(ledgerFeed(feed, ledger, () => undefined))
  const before = feed.last
  const of = { orderId: 'order' }
  if (name === 'setTxHash') await purchases.setTxHash(of, '0x2', 0)
  else if (name === 'resolve') await purchases.resolve(of, 'released', undefined, 0)
  else await purchases.giveBack(of, 0)
  expect(feed.last).not.toBe(before)
  if (name === 'setTxHash') return
  expect(meters.counts(meterNames.payments)).toEqual([{ labels: { direction: 'out', state: 'released' }, value: 1 }])
})

const NOW = Date.UTC(2026, 0, 1)

/** A ledger with a feed, and what the feed published since the last look. */
function listened() {
  const ledger = ledgerOf(openStored())
  const feed = new Feed<NodeEvents>({ life: 'x' })
  const events: { type: string; data: unknown }[] = []
  feed.publish = (type, key, read) => void events.push({ type, data: read(key) })
  ledger.listen(ledgerFeed(feed, ledger, () => undefined))
  return {
    ...ledger,
    told: () => Promise.all(events.splice(0).map(async ({ type, data }) => ({ type, data: await data }))),
  }
}

test('T20 D45: the followers of a buyer hear of a refund, once', async () => {
  const { told, purchases } = listened()
  const { order, reservation } = reserved(signed(NOW), NOW)
  await purchases.reserve(order, reservation, { day: '2026-01-01', limits: () => ({}) })
  await purchases.finish(order, { paymentId: reservation.paymentId, amount: 10_000n, txHash: randomHex() })
  await told()
  const refund = randomHex()
  expect(await purchases.paidBack(reservation, refund, NOW)).toBe(order.id)
  expect(await purchases.paidBack(reservation, randomHex(), NOW)).toBeUndefined()
  expect(await told()).toMatchObject([
    { type: 'order', data: { payment: { book: 'refunded', refund_tx_hash: refund } } },
    { type: 'payment', data: { book: 'refunded', refund_tx_hash: refund } },
  ])
})

test('T20 D45: the followers of a seller hear of a refund, of an attempt moved forward, and of another transaction', async () => {
  const { told, payments } = listened()
  const [paid, late] = [claim(NOW), claim(NOW)]
  for (const one of [paid, late]) {
    await payments.claim(one, NOW)
    await payments.deliver({ id: one.id, state: 'owed', nextAttemptAt: NOW + 60_000 }, exchangeOf(one, NOW), NOW)
  }
  await payments.save({ id: paid.id, state: 'settled', txHash: randomHex() }, NOW)
  await told()
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
    expect(await told()).toMatchObject([{ type: 'payment', data: expected[index] }])
  }
  await payments.lookAgain(paid.id, NOW, moved)
  expect(await told()).toEqual([])
})

test('the followers of a seller hear of calls on a channel when they have ended', async () => {
  const { told, sellerChannels, listen } = listened()
  const meters = new Meters()
  listen(ledgerMeters(meters, clock))
  const channel = channelOf()
  await sellerChannels.add(channel, { perPeerMax: 1, max: 1 })
  const ended = { calls: [callOf(1), callOf(undefined)], now: NOW }
  expect(await sellerChannels.charge({ ...channel, charged: 1_000n, seq: 1 }, 0, ended)).toBe(true)
  expect(await sellerChannels.charge({ ...channel, charged: 1_000n, seq: 1 }, 0, ended)).toBe(false)
  const events = await told()
  expect(events).toMatchObject([
    {
      type: 'payment',
      data: { book: 'earned', state: 'settled', amount_atomic: '1000', payment_id: ended.calls[0]!.id },
    },
    { type: 'payment', data: { book: 'not_charged', state: 'voided', amount_atomic: '0', error: 'no' } },
  ])
  for (const { data } of events) expect(PaymentRecord.parse(data)).toEqual(data)
  expect(meters.counts(meterNames.payments)).toEqual([
    { labels: { direction: 'in', state: 'settled' }, value: 1 },
    { labels: { direction: 'in', state: 'voided' }, value: 1 },
  ])
})

test('a listener that throws fails neither the change nor the listeners after it', async () => {
  const logged: string[] = []
  const ledger = ledgerOf(openStored(), { ...silentLogger, error: (_fields, message) => void logged.push(message) })
  const heard: unknown[] = []
  const leave = ledger.listen(() => {
    throw new Error('a fault of the listener')
  })
  ledger.listen((change) => void heard.push(change))
  const [one, other] = [claim(NOW), claim(NOW)]
  expect(await ledger.payments.claim(one, NOW)).toBe(true)
  expect((await ledger.payments.get(one.id))?.state).toBe('authorized')
  expect(heard).toEqual([{ record: 'payment', id: one.id, from: undefined, to: 'authorized' }])
  expect(logged).toHaveLength(1)
  leave()
  await ledger.payments.claim(other, NOW)
  expect([heard.length, logged.length]).toEqual([2, 1])
})

test('a change is reported after its commit, before the writer goes on, and not at all if it fails', async () => {
  const database = openDatabase({ path: ':memory:' })
  const ledger = ledgerOf(openRecords(database, { hasChain: true }))
  const seen: unknown[] = []
  ledger.listen(({ record }) => {
    if (record === 'payment') seen.push(database.one<{ state: string }>('SELECT state FROM payments')?.state)
  })
  const one = claim(NOW)
  await Promise.all([ledger.payments.claim(one, NOW), ledger.payments.claim(one, NOW)])
  expect(seen).toEqual(['authorized'])
  await ledger.payments.save({ id: one.id, state: 'voided' }, NOW)
  expect(seen).toEqual(['authorized', 'voided'])
  const failing = ledgerOf({
    ...openStored(),
    payments: { ...ledger.payments, save: () => Promise.reject(new Error('the disk is full')) },
  })
  failing.listen((change) => void seen.push(change))
  await expect(failing.payments.save({ id: one.id, state: 'voided' }, NOW)).rejects.toThrow()
  expect(seen).toHaveLength(2)
})
