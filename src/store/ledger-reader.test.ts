import { expect, test } from 'vitest'
import { claim, exchangeOf, randomHex, requirements, signed } from '../../test/support/payments.ts'
import type { Page } from '../schema/page.ts'
import type { Hex } from '../schema/primitives.ts'
import { openDatabase } from './database.ts'
import { createLedgerReader, type LedgerEntry, type LedgerQuery } from './ledger-reader.ts'
import { createPayments } from './payments.ts'
import { createPurchases } from './purchases.ts'

const start = Date.UTC(2026, 0, 1)

async function setup() {
  const database = openDatabase({ path: ':memory:' })
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

test('both directions are one list, newest first, and its pages neither miss nor repeat a payment', async () => {
  const { ledger, receive, pay } = await setup()
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
  const { ledger, receive, pay } = await setup()
  const [received, made] = [await receive(start), await pay(start)]
  expect(await ledger.payment(received)).toMatchObject({ payment: { state: 'owed', peerId: 'buyer', attempts: 1 } })
  expect(await ledger.payment(made)).toMatchObject({ made: { state: 'reserved', sellerId: 'seller', amount: 10_000n } })
  expect(await ledger.payment(randomHex())).toBeUndefined()
})

test('executions are listed newest first, by agent, with their payment', async () => {
  const { ledger, receive } = await setup()
  const paid = [await receive(start), await receive(start + 1), await receive(start + 2)]
  const first = await ledger.executions({ limit: 2 })
  expect(first.items.map(({ paymentId }) => paymentId)).toEqual([paid[2], paid[1]])
  expect((await ledger.executions({ limit: 2, cursor: first.next })).items.map(({ paymentId }) => paymentId)).toEqual([
    paid[0],
  ])
  expect((await ledger.executions({ limit: 2, agentId: 'other' })).items).toEqual([])
  expect(await ledger.execution(first.items[0]!.id)).toMatchObject({ input: 'task', output: 'result' })
})
