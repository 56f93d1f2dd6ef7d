import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import type { OpenPurchases } from '../../src/store/open-purchases.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { createPurchases, type Order, type Purchases, type Reservation } from '../../src/store/purchases.ts'
import { one, run, steps } from '../../src/store/query.ts'
import { revisions } from '../../src/store/revisions.ts'
import { addSpending } from '../../src/store/spending.ts'
import { createTokenStore } from '../../src/store/tokens.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { agentId, randomHex, requirements, signed } from '../support/payments.ts'

const now = Date.UTC(2026, 0, 1, 12)
const day = '2026-01-01'
let database: LedgerDatabase
let purchases: Purchases

function order(changes: Partial<Order> = {}): Order {
  return {
    id: randomUUID(),
    agentId,
    sellerId: 'seller',
    price: 1_000_000n,
    status: 'executing',
    task: 'task',
    output: undefined,
    error: undefined,
    correlationId: randomUUID(),
    createdAt: now,
    updatedAt: now,
    ...changes,
  }
}

function reservation({ id: orderId }: Order, amount = 10_000n, at = now): Reservation {
  const asked = requirements({ amount })
  const { paymentId, envelope } = signed(at, { requirements: asked })
  const validBeforeSeconds = Number(envelope.payload!.authorization.validBefore)
  return { paymentId, orderId, agentId, sellerId: 'seller', requirements: asked, envelope, amount, validBeforeSeconds }
}
const budget = (amountMax = 1_000_000n) => ({ day, limits: () => ({ day: amountMax }) })
const network = 'eip155:84532'
type OpenArguments = Parameters<OpenPurchases['open']>
const listed = async (list: OpenArguments[0], page: Partial<OpenArguments[1]> = {}) =>
  (await purchases.open(list, { network, limit: 10, ...page })).map(({ orderId }) => orderId)
async function reserved(amount = 10_000n) {
  const [bought] = [order()]
  const authorization = reservation(bought, amount)
  expect(await purchases.reserve(bought, authorization, budget())).toBe('reserved')
  return { order: bought, reservation: authorization }
}

onBothEngines((open, openTwo) => {
  beforeEach(async () => {
    database = await open()
    purchases = createPurchases(database)
  })

  test('an order and its authorization read back as they were', async () => {
    const { order: bought, reservation: authorization } = await reserved()
    expect(await purchases.order(bought.id)).toEqual(bought)
    const unknown = { txHash: undefined, confirmation: 'awaited' }
    const kept = { ...authorization, state: 'reserved', ...unknown, createdAt: now, updatedAt: now }
    expect(await purchases.reservationOf(bought.id)).toEqual(kept)
    expect(await listed('reserved')).toEqual([bought.id])
    expect(await purchases.spentOn(day)).toBe(10_000n)
  })

  test('T16: what was given back and brings a result after all counts again, and is given back once', async () => {
    const { order: bought, reservation: authorization } = await reserved()
    const paid = { paymentId: authorization.paymentId, amount: 10_000n, txHash: undefined }
    await purchases.resolve(authorization, 'released', undefined, now)
    await purchases.finish({ ...bought, status: 'completed', output: 'late' }, paid)
    expect((await purchases.reservationOf(bought.id))?.state).toBe('spent')
    expect(await purchases.spentOn(day)).toBe(10_000n)
    await purchases.giveBack(authorization, now)
    await purchases.giveBack(authorization, now)
    expect(await purchases.spentOn(day)).toBe(0n)
  })

  test('T16: a result that arrives late ends its order only together with what counts it again', async () => {
    const { order: bought, reservation: authorization } = await reserved()
    await purchases.resolve(authorization, 'released', undefined, now)
    const late = { ...bought, status: 'completed', output: 'late' } as const
    const paid = { paymentId: authorization.paymentId, amount: 10_000n, txHash: undefined }
    let commits = 0
    const dying = createPurchases({
      ...database,
      async commit(...change) {
        if (++commits > 1) throw new Error('the process has ended')
        return database.commit(...change)
      },
    })
    await dying.finish(late, paid).catch(() => {})
    const left = [(await purchases.order(bought.id))?.status, (await purchases.reservationOf(bought.id))?.state]
    expect([
      ['executing', 'released', 0n],
      ['completed', 'spent', 10_000n],
    ]).toContainEqual([...left, await purchases.spentOn(day)])
    await purchases.finish(late, paid)
    expect(await purchases.order(bought.id)).toMatchObject({ status: 'completed', output: 'late' })
    expect([(await purchases.reservationOf(bought.id))?.state, await purchases.spentOn(day)]).toEqual([
      'spent',
      10_000n,
    ])
  })

  test('D33: an order is never signed for twice, not even after its authorization was released', async () => {
    const { order: bought, reservation: authorization } = await reserved()
    expect(await purchases.reserve(bought, reservation(bought), budget())).toBe('again')
    await purchases.resolve(authorization, 'released', undefined, now)
    expect(await purchases.reserve(bought, reservation(bought), budget())).toBe('again')
    expect(await purchases.spentOn(day)).toBe(0n)
  })

  describe('D33: the daily budget', () => {
    test('holds what fits exactly, and not one atomic unit more', async () => {
      expect(await purchases.reserve(order(), reservation(order(), 1n), budget(0n))).toMatchObject({ over: 'day' })
      const [first, second, third] = [order(), order(), order()]
      expect(await purchases.reserve(first, reservation(first, 60n), budget(100n))).toBe('reserved')
      expect(await purchases.reserve(second, reservation(second, 41n), budget(100n))).toMatchObject({ over: 'day' })
      expect(await purchases.order(second.id)).toBeUndefined()
      expect(await purchases.reserve(third, reservation(third, 40n), budget(100n))).toBe('reserved')
      expect(await purchases.spentOn(day)).toBe(100n)
    })

    test('is each UTC day’s own', async () => {
      const [today, tomorrow] = [order(), order()]
      expect(await purchases.reserve(today, reservation(today, 100n), budget(100n))).toBe('reserved')
      const next = { ...budget(100n), day: '2026-01-02' }
      expect(await purchases.reserve(tomorrow, reservation(tomorrow, 100n), next)).toBe('reserved')
    })

    test('gets released amounts back once, and keeps what was spent', async () => {
      const { reservation: released } = await reserved()
      const { reservation: spent } = await reserved()
      for (let time = 0; time < 2; time++) {
        await purchases.resolve(released, 'released', undefined, now)
        await purchases.resolve(spent, 'spent', randomHex(), now)
        await purchases.resolve(spent, 'released', undefined, now)
      }
      expect(await purchases.spentOn(day)).toBe(10_000n)
    })

    test('keeps what bought something', async () => {
      const { order: bought, reservation: authorization } = await reserved()
      const completed = { ...bought, status: 'completed' as const, output: 'result', updatedAt: now + 5 }
      await purchases.finish(completed, { paymentId: authorization.paymentId, amount: 1n, txHash: undefined })
      expect(await purchases.order(bought.id)).toEqual(completed)
      expect(await purchases.reservationOf(bought.id)).toMatchObject({ state: 'spent', updatedAt: now + 5 })
      await purchases.resolve(authorization, 'released', undefined, now)
      expect(await purchases.spentOn(day)).toBe(10_000n)
    })

    test('is never exceeded and no order is signed for twice, however reservations and releases interleave', async () => {
      const action = fc.record({
        orderIndex: fc.nat(5),
        amount: fc.bigInt({ min: 0n, max: 60n }),
        end: fc.constantFrom('release', 'spend', 'finish', 'leave'),
      })
      const both = (await openTwo()).map((one) => createPurchases(one))
      let days = 0
      await fc.assert(
        fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
          const day = new Date(Date.UTC(2030, 0, 1 + days++)).toISOString().slice(0, 10)
          const own = both[0]!
          const orders = Array.from({ length: 6 }, () => order())
          const signedFor = new Map<string, number>()
          let held = 0n
          await Promise.all(
            actions.map(async ({ orderIndex, amount, end }, index) => {
              const buyer = both[index % 2]!
              const bought = orders[orderIndex]!
              const authorization = reservation(bought, amount)
              if ((await buyer.reserve(bought, authorization, { ...budget(100n), day })) !== 'reserved') return
              signedFor.set(bought.id, (signedFor.get(bought.id) ?? 0) + 1)
              held += amount
              expect(await own.spentOn(day)).toBeLessThanOrEqual(100n)
              if (end === 'leave') return
              if (end === 'finish') {
                const paid = { paymentId: authorization.paymentId, amount: 1n, txHash: undefined }
                return buyer.finish({ ...bought, status: 'completed' }, paid)
              }
              if (end === 'release') held -= amount
              return buyer.resolve(authorization, end === 'spend' ? 'spent' : 'released', undefined, now)
            }),
          )
          expect(await own.spentOn(day)).toBe(held)
          expect(held).toBeLessThanOrEqual(100n)
          for (const times of signedFor.values()) expect(times).toBe(1)
        }),
        { numRuns: 60 },
      )
    })
  })

  test('T5: of many reservations for one order at the same time exactly one holds', async () => {
    const both = (await openTwo()).map((one) => createPurchases(one))
    const bought = order()
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, index) => both[index % 2]!.reserve(bought, reservation(bought), budget())),
    )
    expect(outcomes.filter((outcome) => outcome === 'reserved')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome === 'again')).toHaveLength(29)
    expect(await both[0]!.spentOn(day)).toBe(10_000n)
  })

  test('open reservations come in the order in which they expire', async () => {
    const orders = [30_000, 10_000, 20_000].map((createdAt) => order({ createdAt }))
    for (const bought of orders) {
      await purchases.reserve(bought, reservation(bought, 10_000n, now + bought.createdAt), budget())
    }
    expect(await listed('reserved', { limit: 2 })).toEqual([orders[1]!.id, orders[2]!.id])
    const [first] = await purchases.open('reserved', { network, limit: 1 })
    expect(await listed('reserved', { after: first!.position })).toEqual([orders[2]!.id, orders[0]!.id])
  })

  test('D41: a purchase is found until the chain has confirmed it, whatever its seller says', async () => {
    const { order: bought, reservation: authorization } = await reserved()
    const completed = { ...bought, status: 'completed' as const, output: 'result' }
    await purchases.finish(completed, { paymentId: authorization.paymentId, amount: 1n, txHash: undefined })
    expect(await listed('unconfirmed', { since: now })).toEqual([bought.id])
    expect(await listed('unconfirmed', { since: now + 1 })).toEqual([])
    expect(await listed('unnamed', { since: now })).toEqual([bought.id])
    const txHash = randomHex()
    await purchases.setTxHash(authorization, randomHex(), now)
    expect(await listed('unconfirmed', { since: now })).toHaveLength(1)
    expect(await listed('unnamed', { since: now })).toEqual([])
    expect(await purchases.reservationOf(bought.id)).toMatchObject({ state: 'spent', confirmation: 'awaited' })
    for (let time = 0; time < 2; time++) await purchases.confirm(authorization, txHash, now)
    expect(await listed('unconfirmed', { since: now })).toEqual([])
    expect(await purchases.reservationOf(bought.id)).toMatchObject({ state: 'spent', txHash, confirmation: 'chain' })
    // What the chain shows is not given back.
    expect(await purchases.giveBack(authorization, now)).toBeUndefined()
    expect((await createPurchases(database, { hasChain: false }).reservationOf(bought.id))?.confirmation).toBe('chain')
  })

  test('T17: an order that a crash left executing is pending again only if nothing was signed for it', async () => {
    const { order: paid } = await reserved()
    const [free, canceled, living] = [order(), order(), order()]
    for (const executing of [free, canceled]) await createPurchases(asEnded(database)).finish(executing)
    await purchases.finish(living)
    await createOrderStore(database).cancel(canceled.id, now)
    await purchases.takeOver(now + 1)
    const status = async ({ id }: Order) => (await purchases.order(id))?.status
    const states = await Promise.all([paid, free, canceled, living].map(status))
    expect(states).toEqual(['executing', 'pending', 'cancelled', 'executing'])
  })

  test('an ended purchase stays as it ended, except for a result that was paid for', async () => {
    const { order: bought, reservation: authorization } = await reserved()
    await purchases.finish({ ...bought, status: 'failed' })
    await purchases.finish({ ...bought, status: 'executing' })
    expect((await purchases.order(bought.id))?.status).toBe('failed')
    await purchases.finish({ ...bought, status: 'completed', output: 'late' }, { ...authorization, txHash: undefined })
    await purchases.finish({ ...bought, status: 'failed' })
    expect(await purchases.order(bought.id)).toMatchObject({ status: 'completed', output: 'late' })
  })

  test('D33: an order that was canceled is never signed for, whether it waits or runs', async () => {
    const [waiting, running] = [order({ status: 'pending' }), order()]
    for (const placed of [waiting, running]) {
      await purchases.finish(placed)
      await createOrderStore(database).cancel(placed.id, now)
      expect(await purchases.reserve({ ...placed, status: 'executing' }, reservation(placed), budget())).toBe('ended')
    }
    expect(await purchases.spentOn(day)).toBe(0n)
  })

  test('an order that was canceled while it ran ends canceled, unless it brings a result', async () => {
    const [fruitless, fruitful] = [order(), order()]
    for (const running of [fruitless, fruitful]) {
      await purchases.finish(running)
      expect(await createOrderStore(database).cancel(running.id, now)).toMatchObject({ status: 'executing' })
    }
    const error = { code: 'EXECUTION_FAILED', message: 'cancelled', retryable: false }
    await purchases.finish({ ...fruitless, status: 'failed', error })
    await purchases.finish({ ...fruitful, status: 'completed', output: 'result' })
    expect(await purchases.order(fruitless.id)).toMatchObject({ status: 'cancelled', error })
    expect(await purchases.order(fruitful.id)).toMatchObject({ status: 'completed', output: 'result' })
  })

  test('T18: amounts up to the dearest price add up exactly', async () => {
    const dearest = 1_000_000_000_000n
    const most = budget(1_000n * dearest)
    for (let count = 0; count < 3; count++) {
      const bought = order({ price: dearest })
      expect(await purchases.reserve(bought, reservation(bought, dearest - 1n), most)).toBe('reserved')
      expect((await purchases.order(bought.id))?.price).toBe(dearest)
    }
    expect(await purchases.spentOn(day)).toBe(3n * dearest - 3n)
  })

  describe('D33: of two processes that share a ledger', () => {
    test.each(['day', 'month', 'seller', 'token day', 'token'] as const)(
      'neither passes the limit of a %s, and who is refused hears what is spent',
      async (name) => {
        const [first, second] = await openTwo()
        const both = [createPurchases(first), createPurchases(second)]
        const outcomes = await Promise.all(
          Array.from({ length: 40 }, (_, index) => {
            const bought = order({ tokenId: 't' })
            const limits = () => ({ [name]: 100n })
            return both[index % 2]!.reserve(bought, reservation(bought, 30n), { day, limits })
          }),
        )
        const refused = outcomes.filter((outcome) => outcome !== 'reserved')
        expect(refused).toHaveLength(37)
        for (const outcome of refused) expect(outcome).toEqual({ over: name, spent: 90n, max: 100n })
        expect([await both[0]!.spentOn(day), await both[1]!.spentOn(day.slice(0, 7))]).toEqual([90n, 90n])
      },
    )

    test('one gives back, whoever asks at the same instant', async () => {
      const both = (await openTwo()).map((one) => createPurchases(one))
      const bought = order()
      const made = reservation(bought)
      await both[0]!.reserve(bought, made, budget())
      const ended = await Promise.all(
        Array.from({ length: 6 }, (_, index) => both[index % 2]!.resolve(made, 'released', undefined, now)),
      )
      expect(ended.filter((id) => id !== undefined)).toEqual([bought.id])
      expect(await both[0]!.spentOn(day)).toBe(0n)
      const charged = { orderId: bought.id, txHash: randomHex(), error: { code: 'x', message: 'x', retryable: false } }
      const taken = await Promise.all(Array.from({ length: 6 }, (_, index) => both[index % 2]!.takeBack(charged, now)))
      expect(taken.filter((id) => id !== undefined)).toEqual([bought.id])
      expect(await both[1]!.spentOn(day)).toBe(10_000n)
    })

    test('a cancellation by one and a signature by the other at the same instant exclude each other', async () => {
      const [first, second] = await openTwo()
      const buyer = createPurchases(first)
      for (let time = 0; time < 8; time++) {
        const bought = order()
        await buyer.finish(bought)
        const [outcome, canceled] = await Promise.all([
          buyer.reserve(bought, reservation(bought), budget()),
          createOrderStore(second).cancel(bought.id, now),
        ])
        const signedFor = await buyer.reservationOf(bought.id)
        expect([outcome, signedFor === undefined]).toEqual(outcome === 'ended' ? ['ended', true] : ['reserved', false])
        expect(canceled?.status).toBe('executing')
      }
    })

    test('nothing is signed for an order that the other cancels between the read and the write', async () => {
      const [first, second] = await openTwo()
      const buyer = createPurchases(first)
      const bought = order()
      await buyer.finish(bought)
      const held = Promise.withResolvers<void>()
      const cancellation = steps(function* () {
        // The signature waits for these sums, after it has read the order.
        yield* addSpending({ day, sellerId: 'seller', tokenId: undefined }, 0n)
        held.resolve()
        for (let turn = 0; turn < 200; turn++) yield* one('SELECT 1 AS n')
        yield* run('UPDATE orders SET cancel_requested_at = ? WHERE id = ?', now, bought.id)
      })
      const canceled = second.commit(cancellation)
      await held.promise
      expect(await buyer.reserve(bought, reservation(bought), budget())).toBe('ended')
      await canceled
      expect([await buyer.reservationOf(bought.id), await buyer.spentOn(day)]).toEqual([undefined, 0n])
    })

    test('one notes a refund for one of two purchases', async () => {
      const both = (await openTwo()).map((one) => createPurchases(one))
      const made = [order(), order()].map((one) => [one, reservation(one)] as const)
      for (const [bought, authorization] of made) {
        await both[0]!.reserve(bought, authorization, budget())
        await both[0]!.resolve(authorization, 'spent', randomHex(), now)
      }
      const refund = randomHex()
      const noted = await Promise.all(
        made.map(([, authorization], index) => both[index]!.paidBack(authorization, refund, now)),
      )
      expect(noted.filter((id) => id !== undefined)).toHaveLength(1)
    })

    test('each sees that a payment which counted as final was revised by the other', async () => {
      const [first, second] = await openTwo()
      const buyer = createPurchases(first)
      const bought = order()
      const made = reservation(bought)
      await buyer.reserve(bought, made, budget())
      await buyer.resolve(made, 'spent', randomHex(), now)
      const before = await second.query(revisions())
      await buyer.unconfirm(made, now)
      expect(await second.query(revisions())).toBeGreaterThan(before)
    })
  })

  test('T13: what has ended is due for a look after its window, longest overdue first, until it is final', async () => {
    const made = [await reserved(), await reserved()].map((one) => one.reservation)
    const [first, second] = made
    await purchases.resolve(second!, 'spent', randomHex(), now)
    await purchases.resolve(first!, 'released', undefined, now)
    const lookAt = made[0]!.validBeforeSeconds * 1000 + 60_000
    const due = async (at: number, network = 'eip155:84532') =>
      (await purchases.looksDue(at, 9, network)).map(({ orderId }) => orderId)
    expect(await due(lookAt - 1)).toEqual([])
    const ids = made.map(({ orderId }) => orderId)
    expect((await due(lookAt)).toSorted()).toEqual(ids.toSorted())
    expect(await due(lookAt, 'eip155:8453')).toEqual([])
    await purchases.lookAt(first!, lookAt - 1)
    expect(await due(lookAt)).toEqual(ids)
    await purchases.lookAt(first!, undefined)
    expect(await due(lookAt)).toEqual([second!.orderId])
  })

  test('D48 the token and the approval of an order are read where the order is signed for', async () => {
    const bought = order({ tokenId: 'token' })
    const unset = { expiresAt: undefined, revokedAt: undefined, budget: 5n, perDay: undefined }
    const token = {
      id: 'token',
      name: 'T',
      scope: 'spend' as const,
      hash: new Uint8Array(32),
      createdAt: now,
      ...unset,
    }
    await createTokenStore(database).add(token, 9)
    const seen: unknown[] = []
    const limits = (standing: object) => {
      seen.push(standing)
      return { token: 5n }
    }
    const outcome = await purchases.reserve(bought, reservation(bought, 6n), { day, limits })
    expect(outcome).toEqual({ over: 'token', spent: 0n, max: 5n })
    expect(seen[0]).toEqual({ token, approved: undefined })
  })
})
