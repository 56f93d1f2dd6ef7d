/** D33: the buyer's processes on one ledger have one budget, and one set of rules. */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { type BudgetRules, budgetRules, createRulesStore } from '../../src/buying/budget-rules.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPurchases, type Order, type Reservation } from '../../src/store/purchases.ts'
import type { Standing } from '../../src/store/reserve.ts'
import { createStoredRules } from '../../src/store/stored-rules.ts'
import { createTokenStore } from '../../src/store/tokens.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { agentId, randomHex, requirements, signed } from '../support/payments.ts'
import { testBudget } from '../support/test-budget.ts'

const AMOUNT = 10_000n
const clock = new HandClock()
const { envelope } = signed(clock.now())

function place(tokenId?: string): [Order, Reservation] {
  const [id, now] = [randomUUID(), clock.now()]
  const payload = structuredClone(envelope.payload!)
  payload.authorization.nonce = randomHex()
  const blank = { task: 'x', output: undefined, error: undefined, correlationId: 'c', createdAt: now, updatedAt: now }
  return [
    { id, agentId, sellerId: 'seller', price: AMOUNT, status: 'executing', tokenId, ...blank },
    {
      ...{ paymentId: randomHex(), orderId: id, agentId, sellerId: 'seller', amount: AMOUNT },
      ...{ requirements: requirements({ amount: AMOUNT }), envelope: { ...envelope, payload }, validBeforeSeconds: 1 },
    },
  ]
}

/** A process of the buyer, with a budget of its own over the shared ledger. */
function buyerOn(ledger: LedgerDatabase, rules: Partial<BudgetRules>) {
  const purchases = createPurchases(ledger, { hasChain: true })
  const store = createRulesStore(createStoredRules(ledger))
  const budget = testBudget({ ...budgetRules({}), ...rules }, { clock, purchases, store })
  async function buy(tokenId?: string): Promise<string> {
    const [order, reservation] = place(tokenId)
    const limits = (standing: Standing) => budget.limitsFor(order, reservation, standing)
    const approve = (standing: Standing) => {
      if (budget.approvalFor(reservation, standing) !== undefined) throw new Error('needs an approval')
    }
    const allowance = { day: budget.day(), limits, approve }
    const outcome = await purchases
      .reserve(order, reservation, allowance)
      .catch((error: Error & { code?: string }) => error)
    if (outcome instanceof Error) return outcome.code ?? outcome.message
    return typeof outcome === 'object' ? `over the limit of the ${outcome.over}` : outcome
  }
  return { budget, buy, spent: () => purchases.spentOn(budget.day()) }
}

const countOf = (outcomes: readonly string[], sought: string) => outcomes.filter((one) => one === sought).length

test('60 purchases at once from three processes never exceed one budget, and the last that fits is made', async () => {
  const ledgers = await openShared(3)
  const buyers = ledgers.map((ledger) => buyerOn(ledger, { perDay: 25n * AMOUNT }))
  const outcomes = await Promise.all(Array.from({ length: 60 }, (_, n) => buyers[n % 3]!.buy()))
  expect(countOf(outcomes, 'reserved')).toBeLessThanOrEqual(25)
  // Those that lost their race may ask again.
  for (let n = countOf(outcomes, 'reserved'); n < 25; n++) expect(await buyers[n % 3]!.buy()).toBe('reserved')
  for (const buyer of buyers) expect(await buyer.buy()).toBe('over the limit of the day')
  expect(await buyers[0]!.spent()).toBe(25n * AMOUNT)
})

test('the budget of a token is one for all processes', async () => {
  const ledgers = await openShared(3)
  const token = { id: 't', name: 't', hash: new Uint8Array(32), scope: 'spend', budget: 12n * AMOUNT } as const
  const times = { createdAt: 0, expiresAt: undefined, revokedAt: undefined, perDay: undefined }
  await createTokenStore(ledgers[0]!).add({ ...token, ...times }, 9)
  const buyers = ledgers.map((ledger) => buyerOn(ledger, {}))
  const outcomes = await Promise.all(Array.from({ length: 60 }, (_, n) => buyers[n % 3]!.buy('t')))
  const made = countOf(outcomes, 'reserved')
  expect(made).toBeLessThanOrEqual(12)
  for (let n = made; n < 12; n++) expect(await buyers[n % 3]!.buy('t')).toBe('reserved')
  for (const buyer of buyers) expect(await buyer.buy('t')).toBe('over the limit of the token')
  expect(await buyers[0]!.spent()).toBe(12n * AMOUNT)
})

test('a rule that one process changes binds the next purchase of every other one', async () => {
  const ledgers = await openShared(2)
  const [first, second] = ledgers.map((ledger) => buyerOn(ledger, { perDay: 100n * AMOUNT })) as [
    ReturnType<typeof buyerOn>,
    ReturnType<typeof buyerOn>,
  ]
  expect(await second.buy()).toBe('reserved')
  await first.budget.change({ per_day: 2n * AMOUNT })
  expect([await second.buy(), await second.buy()]).toEqual(['reserved', 'over the limit of the day'])
  await first.budget.change({ per_day: 9n * AMOUNT, deny: ['seller'] })
  expect(await second.buy()).toBe('SELLER_NOT_ALLOWED')
  await first.budget.change({ deny: [], auto_approve_below: AMOUNT })
  expect(await second.buy()).toBe('needs an approval')
  // A change of another rule keeps what the other process has changed.
  await second.budget.change({ auto_approve_below: null, per_call: 5n * AMOUNT })
  expect([second.budget.rules().perDay, await first.buy()]).toEqual([9n * AMOUNT, 'reserved'])
  await first.budget.refresh()
  expect(first.budget.perCall()).toBe(5n * AMOUNT)
})

test('changes of different rules at two processes at once all hold', async () => {
  const ledgers = await openShared(2)
  const [first, second] = ledgers.map((ledger) => buyerOn(ledger, { perDay: 100n * AMOUNT }).budget)
  const limits = [1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n].map((times) => times * AMOUNT)
  for (const limit of limits) {
    const party = `thief ${limit}`
    await Promise.all([first!.change({ per_day: limit }), second!.change({ deny: [party] })])
    await Promise.all([first!.refresh(), second!.refresh()])
    for (const budget of [first!, second!]) expect(budget.rules()).toMatchObject({ perDay: limit, deny: [party] })
  }
})

test('a change at a process whose configuration is older undoes no limit that was set at another one', async () => {
  const [one, two] = await openShared(2)
  const older = buyerOn(one!, { perDay: 20n * AMOUNT })
  const newer = buyerOn(two!, { perDay: 50n * AMOUNT })
  await newer.budget.change({ per_day: AMOUNT })
  await older.budget.change({ per_call: 2n * AMOUNT })
  expect([await newer.buy(), await newer.buy()]).toEqual(['reserved', 'over the limit of the day'])
  // A limit that was raised is no reason to spend more: what the configuration says counts.
  await newer.budget.change({ per_day: 90n * AMOUNT })
  await older.budget.change({ per_call: 3n * AMOUNT })
  await newer.budget.refresh()
  expect([older.budget.rules().perDay, newer.budget.rules().perDay]).toEqual([20n * AMOUNT, 50n * AMOUNT])
})
