import { afterEach, expect, test } from 'vitest'
import { listingFixture, localId } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { claim, exchangeOf } from '../../test/support/payments.ts'
import type { Listing } from '../schema/listing.ts'
import { openDatabase } from '../store/database.ts'
import { createPayments } from '../store/payments.ts'
import type { Buyer } from './buyer.ts'
import { receivedPayment } from './payment-record.ts'
import { madeBook } from './payment-view.ts'

const started = new Set<Buyer>()
afterEach(async () => {
  for (const buyer of started) for (const service of buyer.services.toReversed()) await service.stop()
})

test('D42: an order keeps the name of its agent when the seller takes it off the market', async () => {
  const listings: Listing[] = [listingFixture({ id: localId, local: true, name: 'Summary' })]
  const buyer = createFakeMarket(() => listings)
  started.add(buyer)
  for (const service of buyer.services) await service.start()
  const { id } = await buyer.orders.create({ agentId: localId, price: 0n, task: 'x' })
  await buyer.orders.settled(id, { limitMs: 5_000 })
  listings.length = 0
  expect(buyer.orders.get(id)).toMatchObject({ status: 'completed', agent_name: 'Summary' })
  expect(buyer.orders.list({ limit: 10 }).items).toMatchObject([{ agent_name: 'Summary' }])
})

test.each([
  ['reserved', 'awaited', 'held'],
  ['spent', 'awaited', 'held'],
  ['spent', 'unavailable', 'held'],
  ['spent', 'chain', 'paid'],
  ['released', 'awaited', 'not_charged'],
] as const)('D42: a payment that is %s, confirmation %s, is %s', (state, confirmation, book) => {
  expect(madeBook({ state, confirmation })).toBe(book)
})

test('D42: unpaid work is lost, and unpaid without work is refused: only the first is a failure to look at', async () => {
  const now = Date.UTC(2026, 0, 1)
  const payments = createPayments(openDatabase({ path: ':memory:' }))
  const [ran, neverRan] = [claim(now), claim(now)]
  for (const one of [ran, neverRan]) await payments.claim(one, now)
  await payments.deliver({ id: ran.id, state: 'owed' }, exchangeOf(ran, now), now)
  for (const { id } of [ran, neverRan]) await payments.save({ id, state: 'unsettled', error: 'no funds' }, now)
  const book = (id: typeof ran.id) => receivedPayment(payments.get(id)!, () => undefined).book
  expect([book(ran.id), book(neverRan.id)]).toEqual(['lost', 'refused'])
  expect(payments.counts().unsettled).toBe(1)
})
