import { randomUUID } from 'node:crypto'
import { createEarnings } from '../../src/ledger/stats.ts'
import type { UnixMs } from '../../src/lib/clock.ts'
import { Book } from '../../src/schema/book.ts'
import { createAlarmStore } from '../../src/store/alarms.ts'
import { createDeferred } from '../../src/store/deferred.ts'
import { createExchanges } from '../../src/store/exchanges.ts'
import { heldByAuthorizations } from '../../src/store/held.ts'
import { toHex } from '../../src/store/hex.ts'
import { createIdempotencyKeys } from '../../src/store/idempotency.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createLedgerReader } from '../../src/store/ledger-reader.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { createPayments } from '../../src/store/payments.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { one } from '../../src/store/query.ts'
import { createReceiptStore } from '../../src/store/receipts.ts'
import { createRunTime } from '../../src/store/run-time.ts'
import { createSessionStore } from '../../src/store/sessions.ts'
import { createTaskRecords } from '../../src/store/task-records.ts'
import { claim, exchangeOf, randomHex, reserved, signed } from '../../test/support/payments.ts'
import { NETWORK, nowOf, ordersOf } from './fill.ts'

/** What a node asks its ledger for. `when`: how often. */
export type Measured = { when: string; name: string; run(): Promise<unknown> }

const DAY_MS = 24 * 60 * 60 * 1000
const PAGE = 50

/** The queries of a node with a ledger of so many payments. */
export async function queriesOf(database: LedgerDatabase, payments: number): Promise<Measured[]> {
  const now = nowOf(payments)
  const kind = (when: string, runs: Record<string, () => Promise<unknown>>) =>
    Object.entries(runs).map(([name, run]) => ({ when, name, run }))
  return [
    ...kind('each call', await ofCalls(database, payments, now)),
    ...kind('each second to minute', ofTimers(database, now)),
    ...kind('each hour', await ofHousekeeping(database, now)),
    ...kind('at the start', ofStart(database, now)),
    ...kind('a page or figure', await ofPages(database, payments, now)),
    ...kind('statistics', ofStatistics(database, now)),
  ]
}

async function ofCalls(database: LedgerDatabase, payments: number, now: UnixMs) {
  const store = createPayments(database)
  const purchases = createPurchases(database)
  const exchanges = createExchanges(database)
  const deferred = createDeferred(database)
  const some = (await database.query(
    one<{ id: Uint8Array; agent: string; peer: string; nonce: Uint8Array; payer: string; asset: string }>(
      `SELECT id, agent_id AS agent, peer_id AS peer, authorization_nonce AS nonce, payer, asset FROM payments WHERE no = ?`,
      Math.floor(payments / 2),
    ),
  ))!
  const { caller } = (await database.query(
    one<{ caller: string }>('SELECT caller_id AS caller FROM exchanges LIMIT 1'),
  ))!
  const [id, nonce] = [toHex(some.id), toHex(some.nonce)]
  const order = (await database.query(
    one<{ id: string }>('SELECT id FROM orders WHERE no = ?', ordersOf(payments) >> 1),
  ))!
  const asked = { peerId: some.peer, agentId: some.agent, task: 'task' }
  return {
    'sell: claim, deliver, settle': async () => {
      const payment = claim(now, { challengeNonce: randomHex() })
      await store.claim(payment, now)
      const owed = { id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: now } as const
      await store.deliver(owed, exchangeOf(payment, now), now)
      await store.save({ id: payment.id, state: 'settled', txHash: randomHex() }, now)
    },
    'buy: reserve, finish': async () => {
      const { order: placed, reservation } = reserved(signed(now), now)
      await purchases.reserve(placed, reservation, { day: '2026-01-01', limits: () => ({ day: 10n ** 15n }) })
      const { paymentId, amount } = reservation
      const paid = { paymentId, amount, txHash: randomHex() }
      await purchases.finish({ ...placed, status: 'completed', output: 'r' }, paid)
      await purchases.confirm(reservation, paid.txHash, now)
    },
    'is the challenge used': () => store.challengeConsumed(nonce),
    'is the authorization used': () => store.authorizationSeen(NETWORK, some.asset, some.payer, nonce),
    'a payment by its id': () => store.get(id),
    'the paid result again': () => exchanges.paidOutput(id),
    'history of a session': () => exchanges.history(some.agent, caller, 20),
    'deferred payment of a peer': () => deferred.find(asked),
    'unheard payment of a peer': () => deferred.findUnheard(asked),
    'an order': () => purchases.order(order.id),
    'the payment of an order': () => purchases.reservationOf(order.id),
    'an A2A task': () => createTaskRecords(database).find(some.agent, randomUUID()),
    'fruitless purchases of an agent': () => purchases.fruitlessFor(some.agent, now - DAY_MS),
    'unearned purchases of an agent': () => purchases.unearnedFor(some.agent, now - DAY_MS),
  }
}

function ofTimers(database: LedgerDatabase, now: UnixMs) {
  const store = createPayments(database)
  const purchases = createPurchases(database)
  const deferred = createDeferred(database)
  const alarms = createAlarmStore(database)
  const open = { network: NETWORK, limit: 100 }
  return {
    'outbox: due': () => store.due(now, 16),
    'outbox: next': () => store.nextDueAt(),
    'settled payments to look up': () => store.settledDue(now, 16),
    'settled payments: next look': () => store.nextLookAt(),
    'settled work that never ran': () => deferred.unrun(10),
    'purchases to look up': () => purchases.looksDue(now, 16, NETWORK),
    'open purchases: reserved': () => purchases.open('reserved', open),
    'open purchases: unconfirmed': () => purchases.open('unconfirmed', open),
    'open purchases: unnamed': () => purchases.open('unnamed', open),
    'open purchases: unreceived': () => purchases.open('unreceived', open),
    'metrics: counts of payments': () => store.counts(),
    'metrics: oldest owed': () => store.oldestOwed(),
    'budget: spent and held': () => purchases.spendingOn(new Date(now).toISOString().slice(0, 10)),
    'wallet: held': () => heldByAuthorizations(database, NETWORK),
    'alarms: unpaid': () => alarms.unpaid(),
    'alarms: stuck': () => alarms.stuck(),
    'alarms: failing agents': () => alarms.lateRuns(() => 0),
    'room: is the ledger too large': () => createExchanges(database).trim(now),
  }
}

async function ofHousekeeping(database: LedgerDatabase, now: UnixMs) {
  const runTime = await createRunTime(database, { now: () => now })
  return {
    'purge of exchanges: nothing to do': () => createExchanges(database).purge(now),
    'purge of idempotency keys': () => createIdempotencyKeys(database, runTime).purge(),
  }
}

function ofStart(database: LedgerDatabase, now: UnixMs) {
  const store = createPayments(database)
  const purchases = createPurchases(database)
  return {
    'exposure: open payments': () => store.open(),
    'exposure: losses of a week': () => store.lost(now - 7 * DAY_MS, { slotMs: 5 * 60_000, payersMax: 1_000 }),
    'take over payments': () => store.takeOver('the node stopped', now),
    'make owed payments due': () => store.hasten(now),
    'take over orders': () => purchases.takeOver(now),
    'orders that wait': () => createOrderStore(database).pending(),
  }
}

async function ofPages(database: LedgerDatabase, payments: number, now: UnixMs) {
  const reader = createLedgerReader(database)
  const orders = createOrderStore(database)
  const receipts = createReceiptStore(database)
  const sessions = createSessionStore(database)
  const some = (await database.query(
    one<{ agent: string; caller: string }>('SELECT agent_id AS agent, caller_id AS caller FROM exchanges LIMIT 1'),
  ))!
  const limit = PAGE
  const middle = String(ordersOf(payments) >> 1)
  const books = Book.options.map((book) => [`payments: ${book}`, () => reader.payments({ book, limit })] as const)
  return {
    'payments: newest': () => reader.payments({ limit }),
    ...Object.fromEntries(books),
    'payments: claimed': () => reader.payments({ limit, states: { in: [], out: ['spent'] }, transaction: 'claimed' }),
    'payments: of a token': () => reader.payments({ limit, ownerId: 'token-1' }),
    'payments: of a new token': () => reader.payments({ limit, ownerId: 'token-9' }),
    'executions: newest': () => reader.executions({ limit }),
    'executions: failed': () => reader.executions({ limit, failed: true }),
    'executions: of an agent': () => reader.executions({ limit, agentId: some.agent }),
    'executions: search, nothing found': () => reader.executions({ limit, text: 'a word that is nowhere' }),
    'receipts: newest': () => receipts.list({ limit }),
    'receipts: of an agent': () => receipts.list({ limit, agentId: some.agent }),
    'receipts: of an unknown agent': () => receipts.list({ limit, agentId: 'nobody' }),
    'receipts: of a token': () => receipts.list({ limit, ownerId: 'token-1' }),
    'orders: newest': () => orders.list({ limit }),
    'orders: in the middle': () => orders.list({ limit, cursor: middle }),
    'orders: completed': () => orders.list({ limit, status: 'completed' }),
    'orders: failed': () => orders.list({ limit, status: 'failed' }),
    'orders: executing': () => orders.list({ limit, status: 'executing' }),
    'orders: of an agent': () => orders.list({ limit, agentId: some.agent }),
    'orders: of a token': () => orders.list({ limit, ownerId: 'token-1' }),
    'orders: search, nothing found': () => orders.list({ limit, text: 'a word that is nowhere' }),
    'orders: since yesterday': () => orders.list({ limit, since: now - DAY_MS }),
    'sessions: callers of an agent': () => sessions.callers(some.agent, '', limit),
    'sessions: begin and end': () => sessions.span(some.agent, some.caller),
    'sessions: a page': () => sessions.exchanges(some.agent, some.caller, { limit }),
    'sessions: own orders': () => sessions.ownSpan(some.agent),
    'sessions: own orders of a new token': () => sessions.ownSpan(some.agent, 'token-9'),
    'final payments that changed': () => reader.revisions(),
  }
}

function ofStatistics(database: LedgerDatabase, now: UnixMs) {
  const clock = { now: () => now }
  const ledger = createLedgerReader(database, { network: NETWORK })
  const start = () => createEarnings({ clock, ledger, decimals: 6, nameOf: () => undefined })
  let earnings = start()
  return {
    'sums, the first time after a start': () => {
      earnings = start()
      return earnings.stats({ days: 30 })
    },
    'sums, again': () => earnings.stats({ days: 30 }),
  }
}
