import { afterEach, expect, test } from 'vitest'
import { listingFixture, localId } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { claim, exchangeOf, randomHex, reserved, signed, usdc } from '../../test/support/payments.ts'
import { testBudget } from '../../test/support/test-budget.ts'
import type { Buyer } from '../buying/buyer.ts'
import { systemClock } from '../lib/clock.ts'
import { Book } from '../schema/book.ts'
import type { Listing } from '../schema/listing.ts'
import { openDatabase } from '../store/database.ts'
import { heldByAuthorizations } from '../store/held.ts'
import { createLedgerReader, type LedgerEntry } from '../store/ledger-reader.ts'
import { createPayments } from '../store/payments.ts'
import { createPurchases } from '../store/purchases.ts'
import { workflowBooks } from '../store/workflow-books.ts'
import { madePayment, receivedPayment } from './payment-record.ts'
import { madeBook } from './payment-view.ts'
import { createEarnings } from './stats.ts'

const started = new Set<Buyer>()
afterEach(async () => {
  for (const buyer of started) for (const service of buyer.services.toReversed()) await service.stop()
})

test('D42: an order keeps the names of its agent and its seller when the seller takes it off the market', async () => {
  const listings: Listing[] = [
    listingFixture({ id: localId, local: true, name: 'Summary', seller_name: 'Corner shop' }),
  ]
  const buyer = createFakeMarket(() => listings)
  started.add(buyer)
  for (const service of buyer.services) await service.start()
  const { id } = await buyer.orders.create({ agentId: localId, price: 0n, task: 'x' })
  await buyer.orders.settled(id, { limitMs: 5_000 })
  const waiting = await buyer.orders.create({ agentId: localId, price: 0n })
  listings.length = 0
  expect(await buyer.orders.get(id)).toMatchObject({
    status: 'completed',
    agent_name: 'Summary',
    seller_name: 'Corner shop',
  })
  expect((await buyer.orders.list({ limit: 10 })).items).toMatchObject([
    { id: waiting.id, agent_name: 'Summary', seller_name: 'Corner shop' },
    { agent_name: 'Summary', seller_name: 'Corner shop' },
  ])
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
  const book = async (id: typeof ran.id) => receivedPayment((await payments.get(id))!, () => undefined).book
  expect([await book(ran.id), await book(neverRan.id)]).toEqual(['lost', 'refused'])
  expect((await payments.counts()).unsettled).toBe(1)
})

test('D42: payments are found by their word of the books, each under the one that it shows', async () => {
  const now = Date.UTC(2026, 0, 1)
  const database = openDatabase({ path: ':memory:' })
  const [payments, purchases] = [createPayments(database), createPurchases(database)]
  const received = Array.from({ length: 6 }, () => claim(now))
  for (const one of received) await payments.claim(one, now)
  const [, owed, earned, voided, lost, refused] = received
  for (const one of [owed!, earned!, lost!])
    await payments.deliver({ id: one.id, state: 'owed' }, exchangeOf(one, now), now)
  await payments.save({ id: earned!.id, state: 'settled', txHash: randomHex() }, now)
  await payments.save({ id: voided!.id, state: 'voided', error: 'it failed' }, now)
  for (const { id } of [lost!, refused!]) await payments.save({ id, state: 'unsettled', error: 'no funds' }, now)
  const signedOnes = [signed(now), signed(now), signed(now)].map((one) => reserved(one, now))
  for (const { order, reservation } of signedOnes) {
    await purchases.reserve(order, reservation, { day: '2026-01-01', limits: () => ({}) })
  }
  const set = (changes: string, no: number) =>
    database.write(() => database.prepare(`UPDATE authorizations SET ${changes} WHERE order_no = ?`).run(no))
  await set("state = 'released'", 1)
  await set(`state = 'spent', confirmed_at = ${now}`, 2)
  const ledger = createLedgerReader(database)
  const shown = (entry: LedgerEntry) =>
    entry.direction === 'in'
      ? receivedPayment(entry.payment, () => undefined).book
      : madePayment(entry.made, () => undefined).book
  const all = (await ledger.payments({ limit: 50 })).items.map(shown)
  expect(all.toSorted()).toEqual([
    ...['earned', 'held', 'held', 'lost', 'not_charged', 'not_charged', 'owed', 'paid', 'refused'],
  ])
  for (const book of Book.options) {
    const found = (await ledger.payments({ limit: 50, book })).items.map(shown)
    expect(found, book).toEqual(all.filter((word) => word === book))
  }
})

test('D42: a budget and a workflow say paid for what the chain shows, held for what may be charged, and not charged', async () => {
  const now = Date.UTC(2026, 0, 1)
  const day = '2026-01-01'
  const database = openDatabase({ path: ':memory:' })
  const purchases = createPurchases(database)
  const made = Array.from({ length: 4 }, () => reserved(signed(now), now))
  for (const { order, reservation } of made) {
    await purchases.reserve({ ...order, workflowId: 'w', stepId: 's' }, reservation, { day, limits: () => ({}) })
  }
  const [confirmed, claimed, released] = made.map(({ order }) => order)
  for (const order of [confirmed!, claimed!]) {
    await purchases.finish(
      { ...order, status: 'completed' },
      { paymentId: order.id, amount: 10_000n, txHash: randomHex() },
    )
  }
  await purchases.confirm({ orderId: confirmed!.id }, randomHex(), now)
  await purchases.resolve({ orderId: released!.id }, 'released', undefined, now)
  expect(await database.query(workflowBooks('w'))).toEqual({ paid: 10_000n, held: 20_000n, notCharged: 10_000n })
  const budget = testBudget({}, { clock: { ...systemClock, now: () => now }, purchases })
  const sums = { paid_today: '0.01', held_today: '0.02', paid_month: '0.01', held_month: '0.02', spent_today: '0.03' }
  expect(await budget.view()).toMatchObject(sums)
  expect((await purchases.spendingOn('2026-01-02')).held.day).toBe(0n)
  expect((await purchases.spendingOn('2026-02-01')).held.month).toBe(0n)
})

test('D42: the sums follow what becomes of payments that counted as final', async () => {
  const at = Date.UTC(2026, 0, 1)
  const clock = new HandClock(at + 3 * 24 * 60 * 60 * 1000)
  const now = clock.now()
  const database = openDatabase({ path: ':memory:' })
  const [payments, purchases] = [createPayments(database), createPurchases(database)]
  const earnings = () =>
    createEarnings({ clock, ledger: createLedgerReader(database), decimals: 6, nameOf: () => undefined })
  const kept = earnings()
  const look = async () => expect(await kept.stats({ days: 30 })).toEqual(await earnings().stats({ days: 30 }))

  const [lost, earned] = [claim(at), claim(at)]
  for (const one of [lost, earned]) {
    await payments.claim(one, at)
    await payments.deliver({ id: one.id, state: 'owed' }, exchangeOf(one, at), at)
  }
  await payments.save({ id: lost.id, state: 'unsettled', error: 'no funds' }, at)
  await payments.save({ id: earned.id, state: 'settled', txHash: randomHex() }, at)
  const made = Array.from({ length: 3 }, () => reserved(signed(at), at))
  for (const { order, reservation } of made) {
    await purchases.reserve(order, reservation, { day: '2026-01-01', limits: () => ({}) })
  }
  const [charged, confirmed, late] = made.map(({ order }) => order)
  for (const { id: orderId } of [charged!, late!]) await purchases.resolve({ orderId }, 'released', undefined, at)
  const done = (order: (typeof made)[number]['order']) =>
    purchases.finish({ ...order, status: 'completed' }, { paymentId: order.id, amount: 10_000n, txHash: randomHex() })
  await done(confirmed!)
  await purchases.confirm({ orderId: confirmed!.id }, randomHex(), at)

  const error = { code: 'EXECUTION_FAILED', message: 'it was charged after all', retryable: false }
  // The newest first: behind one that is open, all are counted anew.
  const changes = [
    () => payments.takeBack({ id: earned.id }, now),
    () => payments.reopen({ id: lost.id, state: 'owed' }, now),
    () => done(late!),
    () => purchases.unconfirm({ orderId: confirmed!.id }, now),
    () => purchases.takeBack({ orderId: charged!.id, txHash: randomHex(), error }, now),
  ]
  await look()
  for (const change of changes) {
    await change()
    await look()
  }
})

test('D42: every sum of what is held agrees: books, budget, workflow and wallet', async () => {
  const at = Date.UTC(2026, 0, 1)
  const day = '2026-01-01'
  const database = openDatabase({ path: ':memory:' })
  const purchases = createPurchases(database)
  const made = Array.from({ length: 5 }, () => reserved(signed(at), at))
  for (const { order, reservation } of made) {
    await purchases.reserve({ ...order, workflowId: 'w', stepId: 's' }, reservation, { day, limits: () => ({}) })
  }
  const [claimed, refunded, confirmed, released] = made.map(({ order }) => order)
  for (const order of [claimed!, refunded!, confirmed!]) {
    await purchases.finish(
      { ...order, status: 'completed' },
      { paymentId: order.id, amount: 10_000n, txHash: randomHex() },
    )
  }
  await purchases.paidBack({ orderId: refunded!.id }, randomHex(), at)
  await purchases.confirm({ orderId: confirmed!.id }, randomHex(), at)
  await purchases.resolve({ orderId: released!.id }, 'released', undefined, at)
  // The window is long over, and the chain has said nothing yet.
  const later = new HandClock(at + 20 * 60 * 60 * 1000)
  const ledger = createLedgerReader(database, { network: usdc.network })
  const books = createEarnings({ clock: later, ledger, decimals: 6, nameOf: () => undefined })
  const listed = (await ledger.payments({ limit: 50, book: 'held' })).items
  expect({
    books: (await books.stats({ days: 30 })).held.amount_atomic,
    list: String(10_000 * listed.length),
    budget: (await testBudget({}, { clock: later, purchases }).view()).held_today_atomic,
    workflow: String((await database.query(workflowBooks('w'))).held),
    wallet: String(await heldByAuthorizations(database, usdc.network)),
  }).toEqual({ books: '20000', list: '20000', budget: '20000', workflow: '20000', wallet: '20000' })
})
