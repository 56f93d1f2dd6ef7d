import { expect, test } from 'vitest'
import { Book } from '../../src/schema/book.ts'
import { RUN_CANCELED } from '../../src/schema/limits.ts'
import type { Page } from '../../src/schema/page.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { createExchanges } from '../../src/store/exchanges.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createLedgerReader, type LedgerEntry, type LedgerQuery } from '../../src/store/ledger-reader.ts'
import { createPayments } from '../../src/store/payments.ts'
import { createPurchases } from '../../src/store/purchases.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { claim, exchangeOf, randomHex, requirements, signed } from '../support/payments.ts'

const start = Date.UTC(2026, 0, 1)

function setup(database: LedgerDatabase) {
  const [payments, purchases] = [createPayments(database), createPurchases(database)]
  async function receive(at: number): Promise<Hex> {
    const payment = claim(at)
    await payments.claim(payment, at)
    await payments.deliver(
      { id: payment.id, state: 'owed', attempts: 1, nextAttemptAt: at },
      exchangeOf(payment, at),
      at,
    )
    return payment.id
  }
  async function pay(at: number): Promise<Hex> {
    const asked = requirements()
    const { paymentId, envelope } = signed(at, { requirements: asked })
    const id = randomHex()
    const times = { createdAt: at, updatedAt: at }
    const shared = { agentId: 'bought', sellerId: 'seller' }
    await purchases.reserve(
      {
        ...{ id, ...shared, price: asked.amount, status: 'executing', task: 'x', correlationId: 'c', ...times },
        ...{ output: undefined, error: undefined },
      },
      {
        ...{ paymentId, orderId: id, ...shared, requirements: asked, envelope, amount: asked.amount },
        validBeforeSeconds: Number(envelope.payload!.authorization.validBefore),
      },
      { day: '2026-01-01', limits: () => ({}) },
    )
    return paymentId
  }
  return { ledger: createLedgerReader(database), payments, receive, pay }
}

const idOf = (entry: LedgerEntry) => (entry.direction === 'in' ? entry.payment.id : entry.made.paymentId)

onBothEngines((open) => {
  test('both directions are one list, newest first, and its pages neither miss nor repeat a payment', async () => {
    const { ledger, receive, pay } = setup(await open())
    const ids: Hex[] = []
    const directions = ['in', 'out', 'out', 'in', 'out', 'in', 'in', 'in', 'out'] as const
    for (const [i, direction] of directions.entries()) {
      ids.unshift(await (direction === 'in' ? receive : pay)(start + i * 1000))
    }
    for (const limit of [1, 2, 4, 9, 50]) {
      const seen: Hex[] = []
      let cursor: string | undefined
      do {
        const page: Page<LedgerEntry> = await ledger.payments({ limit, cursor })
        expect(page.items.length).toBeLessThanOrEqual(limit)
        seen.push(...page.items.map(idOf))
        cursor = page.next
      } while (cursor !== undefined)
      expect(seen).toEqual(ids)
    }
    const all = async (query: Partial<LedgerQuery>) => (await ledger.payments({ limit: 50, ...query })).items
    expect((await all({ direction: 'in' })).map(({ direction }) => direction)).toEqual(Array(5).fill('in'))
    expect(await all({ states: { in: ['owed'], out: [] } })).toHaveLength(5)
    expect(await all({ states: { in: [], out: ['spent'] }, transaction: 'confirmed' })).toEqual([])
  })

  test('a payment is found by its id in either direction, with what it was signed for', async () => {
    const { ledger, receive, pay } = setup(await open())
    const [received, made] = [await receive(start), await pay(start)]
    expect(await ledger.payment(received)).toMatchObject({ payment: { state: 'owed', peerId: 'buyer', attempts: 1 } })
    expect(await ledger.payment(made)).toMatchObject({
      made: { state: 'reserved', sellerId: 'seller', amount: 10_000n },
    })
    expect(await ledger.payment(randomHex())).toBeUndefined()
  })

  test('executions are listed newest first, by agent, with their payment', async () => {
    const { ledger, receive } = setup(await open())
    const paid = [await receive(start), await receive(start + 1), await receive(start + 2)]
    const first = await ledger.executions({ limit: 2 })
    expect(first.items.map(({ paymentId }) => paymentId)).toEqual([paid[2], paid[1]])
    expect((await ledger.executions({ limit: 2, cursor: first.next })).items.map(({ paymentId }) => paymentId)).toEqual(
      [paid[0]],
    )
    expect((await ledger.executions({ limit: 2, agentId: 'other' })).items).toEqual([])
    expect(await ledger.execution(first.items[0]!.id)).toMatchObject({ input: 'task', output: 'result' })
  })

  test('the facts of payments and executions are read in the order of their numbers, in parts', async () => {
    const { ledger, receive, pay } = setup(await open())
    const ids = [await receive(start), await receive(start + 1)]
    await pay(start + 2)
    const [first, ...none] = await ledger.paymentFacts('in', 0, 1)
    expect([first, none]).toEqual([expect.objectContaining({ state: 'owed', proven: true, amount: 10_000n }), []])
    expect(await ledger.paymentFacts('in', first!.no, 9)).toHaveLength(ids.length - 1)
    expect(await ledger.paymentFacts('out', 0, 9)).toMatchObject([
      { state: 'reserved', proven: false, owner: undefined },
    ])
    expect(await ledger.executionFacts(0, 9)).toMatchObject([{ failed: false }, { failed: false }])
    expect(await ledger.revisions()).toBe(0)
  })

  test('a run that its caller canceled did not fail', async () => {
    const database = await open()
    const { ledger } = setup(database)
    const exchanges = createExchanges(database)
    for (const ended of [{ output: 'y' }, { error: 'broke' }, { error: RUN_CANCELED }]) {
      const task = { agentId: 'sold', callerId: 'did:peer:them', correlationId: 'c', input: 'x' }
      await exchanges.record({ ...task, ...ended, createdAt: start, durationMs: 1 })
    }
    expect((await ledger.executionFacts(0, 9)).map(({ failed }) => failed)).toEqual([false, true, false])
    const listed = async (failed?: boolean) =>
      (await ledger.executions({ failed, limit: 9 })).items.map(({ output, error }) => output ?? error)
    expect(await listed()).toEqual([RUN_CANCELED, 'broke', 'y'])
    expect(await listed(true)).toEqual(['broke'])
    expect(await listed(false)).toEqual([RUN_CANCELED, 'y'])
  })

  test('payments are summed up by kind and time: by hour, and before that by day', async () => {
    const { ledger, payments, receive, pay } = setup(await open())
    const hour = 60 * 60 * 1000
    await receive(start + 1)
    const settled = await receive(start + 2 * hour)
    await payments.save({ id: settled, state: 'settled', txHash: randomHex() }, start)
    await receive(start + 2 * hour)
    for (const at of [25 * hour, 25 * hour + 1, 26 * hour]) await receive(start + at)
    await pay(start + 26 * hour)
    const options = { limit: 9, hoursSince: start + 24 * hour }
    const sums = (await ledger.paymentSums('in', 0, options)).sort((a, b) => a.last - b.last)
    const owed = {
      state: 'owed',
      proven: true,
      refunded: false,
      agentId: 'paidagent234567paidagent234567aa',
      door: 'libp2p',
      owner: undefined,
    }
    const one = { ...owed, amount: 10_000n, payments: 1 }
    expect(sums).toEqual([
      { ...one, state: 'settled', slot: start, newestAt: start + 2 * hour, last: 2 },
      { ...owed, amount: 20_000n, payments: 2, slot: start, newestAt: start + 2 * hour, last: 3 },
      { ...owed, amount: 20_000n, payments: 2, slot: start + 25 * hour, newestAt: start + 25 * hour + 1, last: 5 },
      { ...one, slot: start + 26 * hour, newestAt: start + 26 * hour, last: 6 },
    ])
    expect(await ledger.paymentSums('in', 2, { ...options, limit: 1 })).toMatchObject([{ payments: 1, last: 3 }])
    expect(await ledger.paymentSums('in', 6, options)).toEqual([])
    expect(await ledger.paymentSums('out', 0, options)).toMatchObject([
      { state: 'reserved', proven: false, slot: start + 26 * hour, payments: 1, last: 1 },
    ])
  })

  test('every book and every kind of settlement can be listed', async () => {
    const { ledger, receive, pay } = setup(await open())
    await receive(start)
    const paid = await pay(start + 1)
    const listed = async (query: Partial<LedgerQuery>) =>
      (await ledger.payments({ limit: 9, ...query })).items.map(idOf)
    const found = await Promise.all(Book.options.map(async (book) => [book, (await listed({ book })).length]))
    expect(Object.fromEntries(found)).toMatchObject({ held: 1, owed: 1, paid: 0, earned: 0, refunded: 0 })
    for (const transaction of ['confirmed', 'claimed'] as const) {
      expect(await listed({ direction: 'out', transaction })).toEqual([])
    }
    expect(await listed({ direction: 'out', transaction: 'none' })).toEqual([paid])
    expect(await listed({ ownerId: 'ann' })).toEqual([])
  })
})
