import { createHash, randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createIdempotencyKeys, type KeyedRequest, KeyTaken } from '../../src/store/idempotency.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import type { Order } from '../../src/store/order-row.ts'
import { putOrder } from '../../src/store/order-row.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { run } from '../../src/store/query.ts'
import { createRunTime, RUN_TIME_APART_MS } from '../../src/store/run-time.ts'
import { HandClock } from '../support/hand-clock.ts'
import { onBothEngines } from '../support/ledgers.ts'

const now = Date.UTC(2026, 0, 1)
const HOUR_MS = 3_600_000
/** 24 hours, and what the processes of a ledger may be apart. */
const LIFE_MS = 24 * HOUR_MS + RUN_TIME_APART_MS
const LIMITS = { all: 1_000, perToken: 1_000 }

function order(changes: Partial<Order> = {}): Order {
  const blank = { sellerId: undefined, output: undefined, error: undefined, correlationId: undefined }
  const what = { id: randomUUID(), agentId: 'a', price: 7n, status: 'pending' as const, task: 'task' }
  return { ...what, ...blank, createdAt: now, updatedAt: now, ...changes }
}
function request(at: number, asked = 'this'): KeyedRequest {
  return { tokenId: undefined, key: 'k', hash: createHash('sha256').update(asked).digest(), at }
}
const place = (database: LedgerDatabase, placed: Order, keyed: KeyedRequest) =>
  createOrderStore(database)
    .place(placed, LIMITS, { request: keyed, kind: 'execute' })
    .catch((error: unknown) => (error instanceof KeyTaken ? error.target.id : (error as { code: string }).code))

onBothEngines((open, openTwo) => {
  test('D38 of two requests with one key at the same instant one makes its order, and the other is told of it', async () => {
    const writers = await openTwo()
    for (let round = 0; round < 5; round += 1) {
      const keyed = { ...request(round), key: `k${round}` }
      const orders = [order(), order()]
      const outcomes = await Promise.all(orders.map((one, index) => place(writers[index]!, one, keyed)))
      const winner = orders[outcomes.indexOf('placed')]!
      expect(outcomes.toSorted()).toEqual(['placed', winner.id].toSorted())
      const [stored, twin] = await Promise.all(
        orders.map(({ id }) =>
          createOrderStore(writers[0])
            .cancel(id, now)
            .then((found) => found?.id),
        ),
      )
      expect([stored, twin].filter((id) => id !== undefined)).toEqual([winner.id])
    }
  })

  test('D38 a key that came with another request is a conflict, also at the same instant', async () => {
    const [one, two] = await openTwo()
    const outcomes = await Promise.all([
      place(one, order(), request(0, 'this')),
      place(two, order(), request(0, 'that')),
    ])
    expect(outcomes.toSorted()).toEqual(['IDEMPOTENCY_CONFLICT', 'placed'])
  })

  test('D38 a key names its request for 24 hours of run time, and two that take it over at one instant share one order', async () => {
    const [one, two] = await openTwo()
    const first = order()
    await place(one, first, request(0))
    expect(await place(two, order(), request(LIFE_MS - 1))).toBe(first.id)
    const later = [order(), order()]
    const outcomes = await Promise.all([
      place(one, later[0]!, request(LIFE_MS)),
      place(two, later[1]!, request(LIFE_MS)),
    ])
    const winner = later[outcomes.indexOf('placed')]!
    expect(outcomes.toSorted()).toEqual(['placed', winner.id].toSorted())
  })

  test.each([
    ['STORE_WRITE_FAILED', true],
    ['STORE_AWAY', true],
    ['STORE_IN_DOUBT', true],
    ['SELLER_FAILED', false],
  ])('D38 a key whose order failed unsigned by %s is free again: %s', async (code, isFree) => {
    const database = await open()
    const failed = order({ status: 'executing' })
    await place(database, failed, request(0))
    const error = { code, message: 'why', retryable: false }
    await database.commit(putOrder({ ...failed, status: 'failed', error }, database.process))
    expect(await place(database, order(), request(1))).toBe(isFree ? 'placed' : failed.id)
  })

  test('D38 a key is free again once its caller left before anything was signed, and not after a cancellation', async () => {
    const database = await open()
    const keys = createIdempotencyKeys(database, await createRunTime(database, new HandClock()))
    const left = order({ status: 'executing' })
    await place(database, left, request(0))
    expect(await keys.find(request(0))).toEqual({ kind: 'execute', id: left.id })
    const error = { code: 'ORDER_CANCELLED', message: 'the caller left', retryable: false }
    await database.commit(putOrder({ ...left, status: 'failed', error }, database.process))
    expect(await keys.find(request(0))).toBeUndefined()
    const again = order({ status: 'executing' })
    expect(await place(database, again, request(1))).toBe('placed')
    await database.commit(run('UPDATE orders SET cancel_requested_at = ? WHERE id = ?', now, again.id))
    await database.commit(putOrder({ ...again, status: 'failed', error }, database.process))
    expect(await place(database, order(), request(2))).toBe(again.id)
  })

  test('D38, T25: a name is for one request, at whatever process it comes, and whatever becomes of its attempts', async () => {
    const [one, two] = await openTwo()
    const attempt = (asked: string, number: number, at = 0): KeyedRequest => {
      const { hash } = request(at, asked)
      return { ...request(at, `${asked} at ${number}`), key: `${asked}.${number}`, named: { key: 'a name', hash } }
    }
    const orders = [order({ status: 'executing' }), order({ status: 'executing' })]
    const asked = ['this', 'that'] as const
    const first = await Promise.all([
      place(one, orders[0]!, attempt('this', 1)),
      place(two, orders[1]!, attempt('that', 1)),
    ])
    expect(first.toSorted()).toEqual(['IDEMPOTENCY_CONFLICT', 'placed'])
    const won = first.indexOf('placed')
    const [mine, other] = won === 0 ? asked : asked.toReversed()
    const error = { code: 'STORE_AWAY', message: 'why', retryable: true }
    await one.commit(putOrder({ ...orders[won]!, status: 'failed', error }, one.process))
    expect(await place(two, order(), attempt(other!, 1))).toBe('IDEMPOTENCY_CONFLICT')
    // Its next attempt, and one more at the same instant.
    const next = [order(), order()]
    const outcomes = await Promise.all([
      place(one, next[0]!, attempt(mine!, 2, 1)),
      place(two, next[1]!, attempt(mine!, 2, 1)),
    ])
    expect(outcomes.toSorted()).toEqual(['placed', next[outcomes.indexOf('placed')]!.id].toSorted())
    expect(await place(two, order(), attempt(other!, 1, LIFE_MS))).toBe('IDEMPOTENCY_CONFLICT')
    expect(await place(two, order(), attempt(other!, 1, LIFE_MS + 1))).toBe('placed')
    // A key of another token is another one.
    expect(await place(one, order({ tokenId: 't' }), { ...attempt(mine!, 9, LIFE_MS + 1), tokenId: 't' })).toBe(
      'placed',
    )
  })

  test('D38 a refused request leaves its key free', async () => {
    const database = await open()
    const full = createOrderStore(database).place(
      order(),
      { all: 0, perToken: 0 },
      { request: request(0), kind: 'order' },
    )
    expect(await full).toBe('full')
    expect(await place(database, order(), request(1, 'another'))).toBe('placed')
    const named = (asked: string) => ({
      ...request(0, asked),
      key: asked,
      named: { key: 'n', hash: Buffer.from(asked) },
    })
    const keyed = { request: named('this'), kind: 'execute' as const }
    expect(await createOrderStore(database).place(order(), { all: 0, perToken: 0 }, keyed)).toBe('full')
    expect(await place(database, order(), named('that'))).toBe('placed')
    // What is refused frees no name that it has not taken.
    expect(
      await createOrderStore(database).place(
        order(),
        { all: 0, perToken: 0 },
        { ...keyed, request: { ...named('that'), key: 'x' } },
      ),
    ).toBe('full')
    expect(await place(database, order(), named('this'))).toBe('IDEMPOTENCY_CONFLICT')
  })

  test('old keys are removed by the run time of the process that has run longest', async () => {
    const [one, two] = await openTwo()
    const clocks = [new HandClock(), new HandClock()] as const
    const early = await createRunTime(one, clocks[0])
    clocks[0].advance(30 * HOUR_MS)
    const late = await createRunTime(two, clocks[1])
    const first = order()
    await place(one, first, request(early.now()))
    await early.save()
    expect(late.now()).toBe(0)
    await late.save()
    expect(late.now()).toBe(early.now())
    const keys = createIdempotencyKeys(two, late)
    await keys.purge()
    expect(await keys.find(request(late.now()))).toMatchObject({ id: first.id })
    clocks[1].advance(LIFE_MS)
    await keys.purge()
    expect(await keys.find(request(0))).toBeUndefined()
    // What has an age tells the run time to the next process.
    await place(one, order(), { ...request(80 * HOUR_MS), key: 'another' })
    expect((await createRunTime(two, new HandClock())).now()).toBe(80 * HOUR_MS)
  })

  test('D38 a key lives for 24 h at each process, also if one began an hour after the other', async () => {
    const [first, second] = await openTwo()
    const clock = new HandClock()
    const early = await createRunTime(first!, clock)
    for (let minute = 0; minute < 59; minute += 1) {
      clock.advance(60_000)
      await early.save()
    }
    clock.advance(59_000)
    const late = await createRunTime(second!, clock)
    const keyed = { ...request(late.now()), key: 'of the late one' }
    const placed = order()
    expect(await place(second!, placed, keyed)).toBe('placed')
    clock.advance(24 * HOUR_MS)
    const keys = [createIdempotencyKeys(first!, early), createIdempotencyKeys(second!, late)]
    await keys[0]!.purge()
    for (const [at, each] of keys.entries()) {
      const again = { ...keyed, at: each.now() }
      expect([at, await each.find(again)]).toEqual([at, { kind: 'execute', id: placed.id }])
    }
    clock.advance(HOUR_MS)
    await keys[1]!.purge()
    expect(await keys[1]!.find({ ...keyed, at: late.now() })).toBeUndefined()
  })

  test('D38 the last order whose key begins so is found, of its token alone, however the clock was set', async () => {
    const database = await open()
    const keys = createIdempotencyKeys(database, await createRunTime(database, new HandClock()))
    const made: string[] = []
    const make = async (key: string, tokenId: string | undefined, changes: Partial<Order> = {}) => {
      const placed = order({ tokenId, ...changes })
      const at = made.length
      await place(database, placed, { ...request(at), key, tokenId })
      made.push(placed.id)
      return { key, orderId: placed.id, at }
    }
    const first = await make('openai:ab:1.1', 't')
    expect(await keys.last('openai:ab:', { tokenId: 't' })).toEqual(first)
    const later = await make('openai:ab:0.2', 't', { createdAt: now - HOUR_MS, updatedAt: now - HOUR_MS })
    await make('openai:ab;', 't')
    await make('openai:ab', 't')
    await make('openai:ac:1.1', 't')
    const others = await make('openai:ab:9.1', 'other')
    const operators = await make('openai:ab:1.1', undefined)
    expect(await keys.last('openai:ab:', { tokenId: 't' })).toEqual(later)
    expect(await keys.last('openai:ab:', { tokenId: 'other' })).toEqual(others)
    expect(await keys.last('openai:ab:', { tokenId: 't', orOperator: true })).toEqual(operators)
    expect(await keys.last('openai:a', { tokenId: 'nobody' })).toBeUndefined()
  })
})
