import { expect, test } from 'vitest'
import { unclear } from '../../test/support/fake-settlement.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { agentId } from '../../test/support/payments.ts'
import { ann, searchedMarket } from '../../test/support/searched-market.ts'
import { startSeller } from '../../test/support/started-seller.ts'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { createLedger, openRecords } from '../ledger/ledger.ts'
import { silentLogger } from '../lib/logger.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { createMeasureStore } from '../store/measures.ts'
import type { Order } from '../store/purchases.ts'
import { createMeasures, measuring } from './measures.ts'

const measuresOf = (database: Database, clock = new HandClock()) =>
  createMeasures({ store: createMeasureStore(database), clock, logger: silentLogger })

async function market() {
  const seller = await startSeller()
  const { clock } = seller
  const buyer = new TestBuyer({ clock, open: (_peer, protocol) => seller.open('buyer', protocol) })
  const measures = measuresOf(buyer.database, clock)
  const ledger = createLedger(openRecords(buyer.database, { hasChain: true }), {
    logger: silentLogger,
    namesOf: () => undefined,
  })
  ledger.listen(
    measuring(measures, { purchases: ledger.purchases, logger: silentLogger }, (orderId) =>
      buyer.deps.active.has(orderId),
    ),
  )
  buyer.deps.purchases = ledger.purchases
  return { seller, buyer, clock, measures }
}

const order = (changes: Partial<Order> = {}): Order => ({
  ...{ id: 'o', agentId, sellerId: 'seller', price: 1n, status: 'completed', task: 't', output: 'r', error: undefined },
  ...{ correlationId: 'c', createdAt: 0, updatedAt: 100, ...changes },
})
const failed = (code: string) => order({ status: 'failed', error: { code, message: 'no', retryable: false } })

test('calls, success, latency, volume and the last answer are those of the calls that were made', async () => {
  const { seller, buyer, clock, measures } = await market()
  expect(measures.stats(agentId)).toEqual({
    ...{ calls: 0, success_rate: null, p50_ms: null, p95_ms: null, last_seen: null },
    ...{ settled_volume: '0', settled_volume_atomic: '0' },
  })
  for (const ms of [100, 300, 200]) {
    seller.work = async () => {
      clock.advance(ms)
      return 'done'
    }
    await buyer.execute({ awaitsSettlement: true })
  }
  for (const { reservation } of await buyer.ledger()) {
    await buyer.deps.purchases.confirm(reservation!, reservation!.txHash!, clock.now())
  }
  const seenAt = new Date(clock.now()).toISOString()
  seller.work = () => Promise.reject(new Error('no'))
  clock.advance(5_000)
  await buyer.execute().catch(() => {})
  const answeredAt = new Date(clock.now()).toISOString()
  expect(measures.stats(agentId)).toEqual({
    ...{ calls: 4, success_rate: 0.75, p50_ms: 200, p95_ms: 300, last_seen: answeredAt },
    ...{ settled_volume: '0.03', settled_volume_atomic: '30000' },
  })
  expect(answeredAt).not.toBe(seenAt)
})

test('D41: what is settled counts when the chain shows it, once, and not by the word of its seller', async () => {
  const { seller, buyer, clock, measures } = await market()
  seller.settlement.plan.push(unclear)
  const { order_id: orderId } = await buyer.execute()
  expect(measures.stats(agentId).settled_volume).toBe('0')
  const hash = `0x${'7'.repeat(64)}` as const
  const { purchases } = buyer.deps
  for (let time = 0; time < 2; time++) {
    await purchases.setTxHash({ orderId: orderId! }, hash, clock.now())
    expect(measures.stats(agentId).settled_volume).toBe('0')
  }
  for (let time = 0; time < 2; time++) {
    await purchases.confirm({ orderId: orderId! }, hash, clock.now())
  }
  expect(measures.stats(agentId).settled_volume).toBe('0.01')
})

test.each(['SELLER_UNREACHABLE', 'EXECUTION_FAILED', 'LISTING_MISMATCH', 'DEADLINE', 'OVERLOADED'])(
  '%s is the doing of the seller',
  (code) => {
    const measures = measuresOf(openDatabase({ path: ':memory:' }))
    measures.ended(failed(code))
    expect(measures.stats(agentId)).toMatchObject({ calls: 1, success_rate: 0 })
    expect(measures.counts(agentId)).toEqual({ calls: 1, success_rate: 0 })
  },
)

test.each(['OVER_BUDGET', 'OVER_PRICE', 'ORDER_CANCELLED', 'STORE_WRITE_FAILED', 'UNKNOWN_AGENT', 'STOPPING'])(
  '%s is no fault of the seller, and not counted',
  (code) => {
    const measures = measuresOf(openDatabase({ path: ':memory:' }))
    measures.ended(failed(code))
    expect(measures.stats(agentId).calls).toBe(0)
    expect(measures.share(agentId)).toBeUndefined()
  },
)

test('silence is not taken for an answer', () => {
  const measures = measuresOf(openDatabase({ path: ':memory:' }))
  measures.ended(failed('SELLER_UNREACHABLE'))
  expect(measures.stats(agentId).last_seen).toBeNull()
  measures.ended(failed('EXECUTION_FAILED'))
  expect(measures.stats(agentId).last_seen).not.toBeNull()
})

test('one good call says less than a hundred', () => {
  const measures = measuresOf(openDatabase({ path: ':memory:' }))
  for (let call = 0; call < 100; call++) measures.ended(order({ agentId: 'often' }), 1_400)
  measures.ended(order({ agentId: 'once' }))
  measures.ended({ ...failed('EXECUTION_FAILED'), agentId: 'never' })
  const [often, once, never] = ['often', 'once', 'never'].map((id) => measures.share(id)!.share) as [
    number,
    number,
    number,
  ]
  expect([often > once, once > 0.5, never < 0.5]).toEqual([true, true, true])
  expect(measures.share('often')!.detail).toBe('100 % of 100 calls succeeded, 1.4 s each')
  expect(measures.share('once')!.detail).toBe('100 % of 1 call succeeded')
})

test('they survive a restart', async () => {
  const database = openDatabase({ path: ':memory:' })
  const first = measuresOf(database)
  await first.service.start()
  for (let call = 0; call < 200; call++) first.ended(order(), call)
  first.ended(order({ agentId: 'other' }))
  first.settled(agentId, 2n ** 40n)
  await first.service.stop()
  const again = measuresOf(database)
  for (const id of [agentId, 'other']) expect(again.stats(id)).toEqual(first.stats(id))
  expect(again.stats(agentId)).toMatchObject({ calls: 200, p50_ms: 135, settled_volume: '1099511.627776' })
})

test('a search shows them to whoever asks, and ranks by them', async () => {
  const market = searchedMarket()
  const [worse, better] = await market.list(ann, ['Worse', 'Better'])
  for (let call = 0; call < 9; call++) {
    market.measures.ended({ ...failed('EXECUTION_FAILED'), agentId: worse!.id })
    market.measures.ended(order({ agentId: better!.id }), 250)
  }
  const shown = market.search.page({ include: 'stats', explain: true }).items
  expect(shown.map(({ name, stats }) => [name, stats?.success_rate, stats?.p50_ms])).toEqual([
    ['Better', 1, 250],
    ['Worse', 0, null],
  ])
  const reason = shown[0]!.ranking!.reasons.find(({ signal }) => signal === 'measured')
  expect(reason?.detail).toBe('100 % of 9 calls succeeded, 250 ms each')
  expect(market.search.page({}).items[0]).not.toHaveProperty('stats')
  expect([market.search.find(worse!.id, 'stats')?.stats?.calls, market.search.find(worse!.id)?.stats]).toEqual([
    9,
    undefined,
  ])
})

test('another include does not change where a page goes on', async () => {
  const market = searchedMarket()
  await market.list(ann, ['One', 'Two'])
  const first = market.search.page({ limit: 1, include: 'stats' })
  expect(market.search.page({ limit: 1, cursor: first.next }).items).toHaveLength(1)
})
