/** D33: purchases that are reserved in one change are refused, or not, as if one came after the other. */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { createPurchases, type Order, type Purchases, type Reservation } from '../../src/store/purchases.ts'
import { one, run } from '../../src/store/query.ts'
import type { Allowance, Standing } from '../../src/store/reserve.ts'
import { createStoredRules } from '../../src/store/stored-rules.ts'
import { createTokenStore } from '../../src/store/tokens.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { agentId, randomHex, requirements, signed } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 31, 12)
const DAYS = ['2026-01-31', '2026-02-01']
const { envelope } = signed(now)

/** What one purchase asks, and what the ledger knows of its order before. */
const wanted = fc.record({
  amount: fc.bigInt({ min: 1n, max: 20n }),
  sellerId: fc.constantFrom('a', 'b'),
  tokenId: fc.constantFrom(undefined, 'rich', 'poor'),
  day: fc.constantFrom(...DAYS),
  before: fc.constantFrom(
    'nothing',
    'nothing',
    'nothing',
    'placed',
    'approved',
    'canceled',
    'failed',
    'reserved',
    'same',
  ),
  judge: fc.constantFrom('allows', 'allows', 'allows', 'forbids', 'wants an approval'),
})
type Wanted = typeof wanted extends fc.Arbitrary<infer T> ? T : never
type Place = { order: Order; reservation: Reservation; allowance: Allowance }

function place({ amount, sellerId, tokenId, day, judge }: Wanted): Place {
  const [id, paymentId] = [randomUUID(), randomHex()]
  const times = { createdAt: now, updatedAt: now }
  const blank = { task: 'x', output: undefined, error: undefined, correlationId: randomUUID(), ...times }
  const limits = ({ token, rules }: Standing) => {
    if (judge === 'forbids') throw new Error('forbidden')
    return { day: BigInt(rules!), month: 90n, seller: 40n, token: token?.budget, 'token day': token?.perDay }
  }
  const approve = ({ approved }: Standing) => {
    if (judge === 'wants an approval' && (approved ?? 0n) < amount) throw new Error('needs an approval')
  }
  const asked = requirements({ amount })
  return {
    order: { id, agentId, sellerId, price: 100n, status: 'executing', tokenId, ...blank },
    reservation: {
      ...{ paymentId, orderId: id, agentId, sellerId, amount, requirements: asked, envelope, validBeforeSeconds: 1 },
    },
    allowance: { day, limits, approve },
  }
}

const APPROVE = `
  INSERT INTO approvals (id, order_id, agent_id, agent_name, seller_id, amount, reason, status, created_at, expires_at)
  VALUES (?, ?, 'a', 'a', 's', 20, 'r', 'approved', 0, 0)`

async function prepare(database: LedgerDatabase, all: readonly Wanted[], places: readonly Place[]): Promise<Purchases> {
  const [purchases, orders, tokens] = [
    createPurchases(database),
    createOrderStore(database),
    createTokenStore(database),
  ]
  await createStoredRules(database).change(() => '50')
  const blank = { scope: 'spend', createdAt: 0, expiresAt: undefined, revokedAt: undefined } as const
  const [rich, poor] = [
    { budget: 1_000n, perDay: 30n },
    { budget: 30n, perDay: undefined },
  ]
  await tokens.add({ id: 'rich', name: 'rich', hash: new Uint8Array([1]), ...rich, ...blank }, 9)
  await tokens.add({ id: 'poor', name: 'poor', hash: new Uint8Array([2]), ...poor, ...blank }, 9)
  for (const [at, { before }] of all.entries()) {
    const { order, reservation } = places[at]!
    const free = { day: '2025-01-01', limits: () => ({}) }
    if (before === 'reserved') await purchases.reserve(order, { ...reservation, paymentId: randomHex() }, free)
    else if (before === 'same') await purchases.reserve(order, reservation, free)
    else if (before === 'failed') await purchases.finish({ ...order, status: 'failed' })
    else if (before !== 'nothing') await purchases.finish(order)
    if (before === 'canceled') await orders.cancel(order.id, now)
    if (before === 'approved') await database.commit(run(APPROVE, order.id, order.id))
  }
  return purchases
}

const told = (outcome: Promise<unknown>) => outcome.catch((error: Error) => error.message)

async function spending(database: LedgerDatabase): Promise<unknown> {
  const purchases = createPurchases(database)
  const sums = await Promise.all(DAYS.map((day) => purchases.spendingOn(day)))
  const rows = await database.query(
    one<{ sum: string }>(
      "SELECT CAST(sum(amount) AS TEXT) AS sum FROM spending WHERE scope LIKE 'token%' OR scope LIKE 'seller%'",
    ),
  )
  return [sums, rows]
}

onBothEngines((open) => {
  test('D33 what is reserved together is refused as if one came after the other', async () => {
    const seen = new Set<string>()
    await fc.assert(
      fc.asyncProperty(fc.array(wanted, { minLength: 30, maxLength: 60, size: 'max' }), async (all) => {
        const places = all.map(place)
        const [together, apart] = [await open(), await open()]
        const [atOnce, inTurn] = await Promise.all([prepare(together, all, places), prepare(apart, all, places)])
        const reserve = (purchases: Purchases, { order, reservation, allowance }: Place) =>
          told(purchases.reserve(order, reservation, allowance))
        const outcomes = await Promise.all(places.map((one) => reserve(atOnce, one)))
        const expected: unknown[] = []
        for (const one of places) expected.push(await reserve(inTurn, one))
        expect(outcomes).toEqual(expected)
        expect(await spending(together)).toEqual(await spending(apart))
        for (const { order } of places) {
          const [made, wantedOf] = await Promise.all([atOnce, inTurn].map((each) => each.reservationOf(order.id)))
          expect(made?.paymentId !== undefined).toBe(wantedOf?.paymentId !== undefined)
          expect((await atOnce.order(order.id))?.status).toBe((await inTurn.order(order.id))?.status)
        }
        for (const outcome of outcomes)
          seen.add(typeof outcome === 'object' ? `over ${(outcome as { over: string }).over}` : `${outcome}`)
      }),
      // A smaller example would open two databases for each try, until the server has no place left.
      { numRuns: 5, endOnFailure: true },
    )
    // Otherwise nothing was tried.
    const tried = ['reserved', 'again', 'ended', 'forbidden', 'needs an approval']
    expect([...seen]).toEqual(expect.arrayContaining(tried))
    expect([...seen].some((outcome) => outcome.startsWith('over '))).toBe(true)
    // Ten ledgers with some sixty orders each: a minute on two busy cores.
  }, 900_000)

  test('among new orders one that is approved is known as approved', async () => {
    const database = await open()
    const wish = { amount: 1n, sellerId: 'a', tokenId: undefined, day: DAYS[0]! } as const
    const all: Wanted[] = [
      { ...wish, before: 'approved', judge: 'wants an approval' },
      { ...wish, before: 'nothing', judge: 'allows' },
      { ...wish, before: 'nothing', judge: 'wants an approval' },
    ]
    const places = all.map(place)
    const purchases = await prepare(database, all, places)
    const asked = places.map((each) => told(purchases.reserve(each.order, each.reservation, each.allowance)))
    expect(await Promise.all(asked)).toEqual(['reserved', 'reserved', 'needs an approval'])
  })

  test('one change takes all that is reserved in a turn, and reads the sums once', async () => {
    const database = await open()
    let commits = 0
    const counted: LedgerDatabase = {
      ...database,
      commit: (...change) => {
        commits += 1
        return database.commit(...change)
      },
    }
    const purchases = createPurchases(counted)
    const places = Array.from({ length: 50 }, () =>
      place({ amount: 1n, sellerId: 'a', tokenId: undefined, day: DAYS[0]!, before: 'nothing', judge: 'allows' }),
    )
    const limits = () => ({ day: 30n })
    const outcomes = await Promise.all(
      places.map(({ order, reservation, allowance }) =>
        purchases.reserve(order, reservation, { ...allowance, limits }),
      ),
    )
    expect(outcomes.filter((outcome) => outcome === 'reserved')).toHaveLength(30)
    expect(outcomes.at(-1)).toEqual({ over: 'day', spent: 30n, max: 30n })
    expect(await purchases.spentOn(DAYS[0]!)).toBe(30n)
    expect(commits).toBe(1)
  })
})
